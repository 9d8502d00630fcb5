// Trains networks on a GPU: one block of threads trains one network, from its first to its last step. And predicts with
// them: see the end.
//
// Weights, Adam's moments and the activations of a batch lie in the shared memory of a multiprocessor, unless the inputs
// are so many that the moments of the first layer have to lie in global memory. Rows of the next batch are copied while
// this one is computed. All numbers are in single precision.
//
// Layout, with BP the batch padded to a multiple of four plus four:
//   weights of a layer     [n_in + 1][ld]   row k holds the weights of input k; the last row is the bias
//   inputs of a layer      [n_in + 1][BP]   the last row is one
//   deltas of a layer      [ld][BP]         after the forward pass the slopes of the activation; rows from n_out on are 0

#ifndef THREADS
#define THREADS 256
#endif
#define MAX_LAYERS 10

struct Job {
    const float *X, *y, *row_weight;  // of the job's table; no weights where every row counts once
    long long order, held_out, weights, rates;
    int n_layers, inputs, n_train, n_val, epochs, warmup, patience, activation, objective, batch;
    int first_moments_outside;  // whether the moments of the first layer stay in global memory
    int buffers;                // copies of the inputs: 2 if the next batch is copied meanwhile
    int width[MAX_LAYERS];      // outputs of each layer
    float beta, tol;
};

struct Tables {
    const float *rates;
    const int *order, *held_out;
    float *weights, *moments, *best, *score, *losses, *validation_losses;
    int *state;  // stopped, epochs, best epoch
    const Job *jobs;
    int first, until, curve;  // epochs of this launch, and of all
    int start;                // number of the job of the first block
};

enum { NLL, BETA_NLL, MSE };

#define LEAK 0.01f
#define MIN_VARIANCE 1e-6f
#define BETA_1 0.9f
#define BETA_2 0.999f
#define REST_1 0.1f  // 1 - BETA_1, which single precision would not give
#define REST_2 0.001f
#define EPSILON 1e-8f

#ifndef EMULATED
#define SHARED_MEMORY(name) extern __shared__ __align__(16) float name[]
typedef float4 Four;
#if __CUDA_ARCH__ >= 800
__device__ __forceinline__ void copy_later(float *to, const float *from) {
    unsigned place = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(place), "l"(from));
}
__device__ __forceinline__ void copies_arrive() {
    asm volatile("cp.async.commit_group;");
    asm volatile("cp.async.wait_group 0;" ::: "memory");
}
#else
__device__ __forceinline__ void copy_later(float *to, const float *from) { *to = *from; }
__device__ __forceinline__ void copies_arrive() {}
#endif
__device__ __forceinline__ float quotient(float a, float b) { return __fdividef(a, b); }
__device__ __forceinline__ float root_of(float a) {
    float root;
    asm("sqrt.approx.f32 %0, %1;" : "=f"(root) : "f"(a));
    return root;
}
#endif

__device__ __forceinline__ Four four(const float *place) { return *reinterpret_cast<const Four *>(place); }

__device__ __forceinline__ int padded(int n) { return (n + 3) & ~3; }

// Where one layer lies in shared memory.
struct Layer {
    int n_in, n_out, ld, weights, first, second, input, delta;
};

__device__ float activated(float z, int code, float &slope) {
    if (code == 0) {
        slope = z > 0.0f ? 1.0f : 0.0f;
        return fmaxf(z, 0.0f);
    }
    if (code == 1) {
        slope = z > 0.0f ? 1.0f : LEAK;
        return z > 0.0f ? z : LEAK * z;
    }
    if (code == 2) {
        float t = tanhf(z);
        slope = 1.0f - t * t;
        return t;
    }
    float s = 1.0f / (1.0f + expf(-z));
    slope = s * (1.0f + z * (1.0f - s));
    return z * s;
}

// One hidden layer: tiles of two outputs and four rows. Training needs the slopes of the activation, prediction does not.
template <bool WITH_SLOPES>
__device__ void hidden_layer(float *mem, const Layer layer, float *out, int BP, int batch, int code) {
    int row_tiles = (batch + 3) / 4, tiles = (layer.ld / 2) * row_tiles;
    for (int tile = threadIdx.x; tile < tiles; tile += THREADS) {
        int o = tile / row_tiles * 2, b = tile % row_tiles * 4;
        const float *W = mem + layer.weights + o, *A = mem + layer.input + b;
        float z[2][4] = {};
#pragma unroll 4
        for (int k = 0; k <= layer.n_in; k++) {
            float2 w = *reinterpret_cast<const float2 *>(W + k * layer.ld);
            Four a = four(A + k * BP);
            z[0][0] += w.x * a.x; z[0][1] += w.x * a.y; z[0][2] += w.x * a.z; z[0][3] += w.x * a.w;
            z[1][0] += w.y * a.x; z[1][1] += w.y * a.y; z[1][2] += w.y * a.z; z[1][3] += w.y * a.w;
        }
#pragma unroll
        for (int i = 0; i < 2; i++) {
            if (o + i >= layer.n_out) continue;
            Four a, s;
            a.x = activated(z[i][0], code, s.x);
            a.y = activated(z[i][1], code, s.y);
            a.z = activated(z[i][2], code, s.z);
            a.w = activated(z[i][3], code, s.w);
            *reinterpret_cast<Four *>(out + (o + i) * BP + b) = a;
            if (WITH_SLOPES) *reinterpret_cast<Four *>(mem + layer.delta + (o + i) * BP + b) = s;
        }
    }
}

// The two outputs: each is a sum over units in parts, which the loss adds up.
#define PARTS (THREADS / 64)
__device__ void last_layer(float *mem, const Layer layer, float *parts, int BP, int batch) {
    for (int start = 0; start < batch; start += 32) {
        int b = start + threadIdx.x % 32, o = threadIdx.x / 32 % 2, part = threadIdx.x / 64;
        float sum = 0.0f;
        if (b < batch)
            for (int k = part; k <= layer.n_in; k += PARTS)
                sum += mem[layer.weights + k * layer.ld + o] * mem[layer.input + k * BP + b];
        if (b < batch) parts[(part * 2 + o) * BP + b] = sum;
    }
}

// The loss of row b, and its gradient by the outputs, divided by the number of rows.
__device__ float loss_of(const float *parts, int BP, int b, float y, float weight, int objective, float beta, float share,
                         float *delta) {
    float mean = 0.0f, raw = 0.0f;
    for (int part = 0; part < PARTS; part++) {
        mean += parts[part * 2 * BP + b];
        raw += parts[(part * 2 + 1) * BP + b];
    }
    float error = mean - y;
    if (objective == MSE) {
        delta[b] = weight * error * share;
        delta[BP + b] = 0.0f;
        return weight * error * error * 0.5f;
    }
    float t = expf(-fabsf(raw)), v = fmaxf(raw, 0.0f) + log1pf(t) + MIN_VARIANCE;
    float log_v = logf(v), z = error / v, w = objective == BETA_NLL ? weight * expf(beta * log_v) : weight;
    float sigmoid = (raw >= 0.0f ? 1.0f : t) / (1.0f + t);
    delta[b] = w * z * share;
    delta[BP + b] = w * (1.0f - error * z) / v * 0.5f * sigmoid * share;
    return w * (log_v + error * z) * 0.5f;
}

// The deltas of the layer before: slopes times the sum over outputs; tiles of two inputs and four rows. The last threads
// come first: the first ones may still be busy with the update of the layer above, which no other thread waits for.
__device__ void delta_before(float *mem, const Layer layer, int before, int BP, int batch) {
    int row_tiles = (batch + 3) / 4, tiles = (layer.n_in + 1) / 2 * row_tiles;
    for (int tile = THREADS - 1 - threadIdx.x; tile < tiles; tile += THREADS) {
        int k = tile / row_tiles * 2, b = tile % row_tiles * 4;
        const float *W = mem + layer.weights + k * layer.ld, *D = mem + layer.delta + b;
        float d[2][4] = {};
        for (int o = 0; o < layer.ld; o += 4) {
            Four w[2] = {four(W + o), four(W + layer.ld + o)};
#pragma unroll
            for (int j = 0; j < 4; j++) {
                Four e = four(D + (o + j) * BP);
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    float u = j == 0 ? w[i].x : j == 1 ? w[i].y : j == 2 ? w[i].z : w[i].w;
                    d[i][0] += u * e.x; d[i][1] += u * e.y; d[i][2] += u * e.z; d[i][3] += u * e.w;
                }
            }
        }
#pragma unroll
        for (int i = 0; i < 2; i++) {
            if (k + i >= layer.n_in) continue;
            Four *place = reinterpret_cast<Four *>(mem + before + (k + i) * BP + b), s = *place;
            s.x *= d[i][0]; s.y *= d[i][1]; s.z *= d[i][2]; s.w *= d[i][3];
            *place = s;
        }
    }
}

struct Rates {
    float size, root, decay;
};

// The gradient of the weights, and Adam's step: tiles of four inputs and four outputs. A tile's inputs and outputs are
// not neighbours but a number of tiles apart, so that threads side by side read different banks of shared memory.
__device__ void update(float *mem, const Layer layer, float *first, float *second, int BP, int batch, Rates rate) {
    int n_in = layer.n_in, ld = layer.ld;
    int out_tiles = ld / 4, in_tiles = (n_in + 4) / 4, tiles = in_tiles * out_tiles, rows = padded(batch);
    for (int tile = threadIdx.x; tile < tiles; tile += THREADS) {
        int k = tile / out_tiles, o = tile % out_tiles;
        const float *A[4], *D = mem + layer.delta + o * BP;
#pragma unroll
        for (int i = 0; i < 4; i++) A[i] = mem + layer.input + min(k + i * in_tiles, n_in) * BP;
        float g[4][4] = {};
        for (int b = 0; b < rows; b += 4) {
            Four a[4];
#pragma unroll
            for (int i = 0; i < 4; i++) a[i] = four(A[i] + b);
#pragma unroll
            for (int j = 0; j < 4; j++) {
                Four d = four(D + j * out_tiles * BP + b);
#pragma unroll
                for (int i = 0; i < 4; i++) g[i][j] += a[i].x * d.x + a[i].y * d.y + a[i].z * d.z + a[i].w * d.w;
            }
        }
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if (k + i * in_tiles > n_in) continue;
#pragma unroll
            for (int j = 0; j < 4; j++) {
                int place = (k + i * in_tiles) * ld + o + j * out_tiles;
                float m = BETA_1 * first[place] + REST_1 * g[i][j];
                float v = BETA_2 * second[place] + REST_2 * (g[i][j] * g[i][j]);
                first[place] = m;
                second[place] = v;
                float *W = mem + layer.weights + place;
                *W = *W * rate.decay - quotient(m * rate.size, root_of(v) * rate.root + EPSILON);
            }
        }
    }
}

// Copy the inputs, targets and weights of a batch, whose row numbers lie in shared memory.
__device__ void copy_rows(const Job &job, float *to, float *targets, const int *rows, int n, int BP) {
    int total = n * job.inputs;
    for (int i = threadIdx.x; i < total; i += THREADS) {
        int b = i % n, k = i / n;
        copy_later(to + k * BP + b, job.X + (long long)rows[b] * job.inputs + k);
    }
    for (int b = threadIdx.x; b < n; b += THREADS) {
        copy_later(targets + b, job.y + rows[b]);
        if (job.row_weight) copy_later(targets + BP + b, job.row_weight + rows[b]);
    }
}

__device__ void copy_numbers(int *to, const int *from, int n) {
    for (int b = threadIdx.x; b < n; b += THREADS)
        copy_later(reinterpret_cast<float *>(to + b), reinterpret_cast<const float *>(from + b));
}

// Batches of row numbers, copied ahead: numbers two batches before they are used, rows one batch before.
struct Stream {
    const int *numbers;
    int n, batch, batches;
};

__device__ int size_of(const Stream &stream, int step) {
    return min(stream.batch, stream.n - step * stream.batch);
}

extern "C" __global__ void __launch_bounds__(THREADS) train(Tables all) {
    SHARED_MEMORY(mem);
    __shared__ Layer layers[MAX_LAYERS];
    __shared__ int flags[4];
    const int number = all.start + blockIdx.x;
    const Job &job = all.jobs[number];
    int BP = padded(job.batch) + 4, last = job.n_layers - 1;

    if (threadIdx.x == 0) {
        int at = 0, n_in = job.inputs;
        for (int l = 0; l <= last; l++) {
            Layer &layer = layers[l];
            layer.n_in = n_in;
            layer.n_out = job.width[l];
            layer.ld = padded(layer.n_out);
            layer.weights = at;
            at += (n_in + 1) * layer.ld;
            n_in = layer.n_out;
        }
        int n_weights = at, skipped = job.first_moments_outside ? layers[1].weights : 0;
        if (last == 0) skipped = job.first_moments_outside ? n_weights : 0;
        for (int l = 0; l <= last; l++) {
            layers[l].first = n_weights + layers[l].weights - skipped;
            layers[l].second = 2 * n_weights - skipped + layers[l].weights - skipped;
        }
        at = n_weights + 2 * (n_weights - skipped);
        for (int l = 0; l <= last; l++) {
            layers[l].input = at;
            at += (layers[l].n_in + 1) * BP * (l == 0 ? job.buffers : 1);
        }
        for (int l = 0; l <= last; l++) {
            layers[l].delta = at;
            at += layers[l].ld * BP;
        }
        flags[0] = n_weights;
        flags[1] = at;
        flags[2] = all.state[3 * number];
    }
    __syncthreads();
    int n_weights = flags[0], at = flags[1], skipped = job.first_moments_outside ? (last ? layers[1].weights : n_weights) : 0;
    float *parts = mem + at;
    float *targets = parts + 2 * PARTS * BP;          // two buffers of targets and row weights
    int *numbers = reinterpret_cast<int *>(targets + 4 * BP);  // three buffers of row numbers
    int end = at + (2 * PARTS + 4 + 3) * BP;
    float *weights = all.weights + job.weights, *first = all.moments + 2 * job.weights, *second = first + n_weights;

    // Zeros where nothing else is, ones that biases multiply, and the state of the network.
    for (int i = threadIdx.x; i < end; i += THREADS) mem[i] = 0.0f;
    __syncthreads();
    for (int i = threadIdx.x; i < n_weights; i += THREADS) {
        mem[i] = weights[i];
        if (i >= skipped) {
            mem[n_weights + i - skipped] = first[i];
            mem[2 * n_weights - skipped + i - skipped] = second[i];
        }
    }
    int input_size = (job.inputs + 1) * BP;
    for (int b = threadIdx.x; b < job.batch; b += THREADS) {
        for (int l = 0; l <= last; l++) mem[layers[l].input + layers[l].n_in * BP + b] = 1.0f;
        if (job.buffers == 2) mem[layers[0].input + input_size + job.inputs * BP + b] = 1.0f;
        if (!job.row_weight) targets[BP + b] = targets[3 * BP + b] = 1.0f;
    }
    int best_epoch = all.state[3 * number + 2], until = min(all.until, job.epochs);
    float lowest = all.score[number];
    __syncthreads();

    for (int epoch = all.first; epoch < until && !flags[2]; epoch++) {
        int steps = (job.n_train + job.batch - 1) / job.batch;
        int objective = epoch < job.warmup ? MSE : job.objective;
        for (int phase = 0; phase < (job.n_val ? 2 : 1); phase++) {  // training, then validation
            Stream stream;
            stream.numbers = phase ? all.held_out + job.held_out
                                   : all.order + job.order + (long long)(epoch - all.first) * job.n_train;
            stream.n = phase ? job.n_val : job.n_train;
            stream.batch = job.batch;
            stream.batches = (stream.n + job.batch - 1) / job.batch;
            const float *rates = all.rates + job.rates + 3ll * epoch * steps;
            float total = 0.0f;
            copy_numbers(numbers, stream.numbers, size_of(stream, 0));
            copies_arrive();
            __syncthreads();
            copy_rows(job, mem + layers[0].input, targets, numbers, size_of(stream, 0), BP);
            if (stream.batches > 1) copy_numbers(numbers + BP, stream.numbers + job.batch, size_of(stream, 1));
            copies_arrive();
            __syncthreads();
            for (int step = 0; step < stream.batches; step++) {
                int n = size_of(stream, step), turn = step % job.buffers;
                float *target = targets + (step % 2) * 2 * BP;
                Rates rate = {0.0f, 0.0f, 0.0f};
                if (!phase) {
                    rate.size = rates[3 * step];
                    rate.root = rates[3 * step + 1];
                    rate.decay = rates[3 * step + 2];
                }
                bool ahead = step + 1 < stream.batches;
                if (ahead && job.buffers == 2)
                    copy_rows(job, mem + layers[0].input + (1 - turn) * input_size, targets + (1 - step % 2) * 2 * BP,
                              numbers + (step + 1) % 3 * BP, size_of(stream, step + 1), BP);
                if (step + 2 < stream.batches)
                    copy_numbers(numbers + (step + 2) % 3 * BP, stream.numbers + (step + 2) * job.batch,
                                 size_of(stream, step + 2));
                for (int l = 0; l < last; l++) {
                    Layer layer = layers[l];
                    if (l == 0) layer.input += turn * input_size;
                    hidden_layer<true>(mem, layer, mem + layers[l + 1].input, BP, job.batch, job.activation);
                    __syncthreads();
                }
                Layer top = layers[last];
                if (last == 0) top.input += turn * input_size;
                last_layer(mem, top, parts, BP, job.batch);
                __syncthreads();
                float *delta = mem + layers[last].delta;
                for (int b = threadIdx.x; b < job.batch; b += THREADS) {
                    if (b < n) {
                        total += loss_of(parts, BP, b, target[b], target[BP + b], phase ? job.objective : objective,
                                         job.beta, 1.0f / n, delta);
                    } else {
                        delta[b] = delta[BP + b] = 0.0f;
                    }
                }
                __syncthreads();
                if (!phase) {
                    for (int l = last; l >= 0; l--) {
                        Layer layer = layers[l];
                        if (l == 0) layer.input += turn * input_size;
                        if (l) {
                            delta_before(mem, layer, layers[l - 1].delta, BP, job.batch);
                            __syncthreads();
                        }
                        bool outside = job.first_moments_outside && l == 0;
                        update(mem, layer, outside ? first : mem + layer.first, outside ? second : mem + layer.second, BP,
                               job.batch, rate);
                    }
                }
                __syncthreads();
                if (ahead && job.buffers == 1)
                    copy_rows(job, mem + layers[0].input, targets + (1 - step % 2) * 2 * BP,
                              numbers + (step + 1) % 3 * BP, size_of(stream, step + 1), BP);
                copies_arrive();
                __syncthreads();
            }
            // The mean loss: each thread has the rows whose number modulo THREADS is its own.
            if (threadIdx.x < job.batch) parts[threadIdx.x] = total;
            __syncthreads();
            if (threadIdx.x == 0) {
                double sum = 0.0;
                for (int b = 0; b < min(job.batch, THREADS); b++) sum += parts[b];
                parts[0] = (float)(sum / stream.n);
                (phase ? all.validation_losses : all.losses)[(long long)number * all.curve + epoch] = parts[0];
            }
            __syncthreads();
            if (phase && epoch >= job.warmup) {
                float found = parts[0];
                if (found < lowest - job.tol) {
                    lowest = found;
                    best_epoch = epoch;
                    for (int i = threadIdx.x; i < n_weights; i += THREADS) all.best[job.weights + i] = mem[i];
                } else if (threadIdx.x == 0 && epoch - best_epoch >= job.patience) {
                    flags[2] = 1;
                }
            }
            __syncthreads();
        }
        if (threadIdx.x == 0) all.state[3 * number + 1] = epoch + 1;
    }
    for (int i = threadIdx.x; i < n_weights; i += THREADS) {
        weights[i] = mem[i];
        if (i >= skipped) {
            first[i] = mem[n_weights + i - skipped];
            second[i] = mem[2 * n_weights - skipped + i - skipped];
        }
    }
    if (threadIdx.x == 0) {
        all.state[3 * number] = flags[2];
        all.state[3 * number + 2] = best_epoch;
        all.score[number] = lowest;
    }
}

// What networks of one shape predict for rows. Features of bins are inputs that follow the columns.
struct Forward {
    const float *X, *weights, *bins;  // bins: lower ends, widths, means and scales of their features
    const int *bin_columns;
    float *means, *variances;         // of each network
    long long n_rows;
    int n_columns, n_bins, n_layers, activation, size, batch;
    int parts;                        // blocks that divide the rows of a network
    int width[MAX_LAYERS];
};

// A block predicts some of the rows with one network, whose weights stay in shared memory.
extern "C" __global__ void __launch_bounds__(THREADS) predict(Forward all) {
    SHARED_MEMORY(mem);
    __shared__ Layer layers[MAX_LAYERS];
    __shared__ int end;
    int BP = padded(all.batch) + 4, last = all.n_layers - 1, n_inputs = all.n_columns + all.n_bins;
    long long number = blockIdx.x / all.parts, rest = blockIdx.x % all.parts;
    if (threadIdx.x == 0) {
        int at = 0, n_in = n_inputs, place = all.size;
        for (int l = 0; l <= last; l++) {
            Layer &layer = layers[l];
            layer.n_in = n_in;
            layer.n_out = all.width[l];
            layer.ld = padded(layer.n_out);
            layer.weights = at;
            layer.input = place;
            at += (n_in + 1) * layer.ld;
            place += (n_in + 1) * BP;
            n_in = layer.n_out;
        }
        end = place;
    }
    __syncthreads();
    float *sums = mem + end, *inputs = mem + layers[0].input;
    for (int i = threadIdx.x; i < all.size; i += THREADS) mem[i] = all.weights[number * all.size + i];
    for (int i = all.size + threadIdx.x; i < end; i += THREADS) mem[i] = 0.0f;
    __syncthreads();
    for (int b = threadIdx.x; b < all.batch; b += THREADS)
        for (int l = 0; l <= last; l++) mem[layers[l].input + layers[l].n_in * BP + b] = 1.0f;
    for (long long start = rest * all.batch; start < all.n_rows; start += (long long)all.parts * all.batch) {
        int n = (int)min((long long)all.batch, all.n_rows - start);
        for (int i = threadIdx.x; i < n * all.n_columns; i += THREADS)
            inputs[i % all.n_columns * BP + i / all.n_columns] = all.X[start * all.n_columns + i];
        __syncthreads();
        for (int i = threadIdx.x; i < n * all.n_bins; i += THREADS) {
            int k = i / n, b = i % n;
            const float *bin = all.bins + k;
            float share = (inputs[all.bin_columns[k] * BP + b] - bin[0]) / bin[all.n_bins];
            share = share < 0.0f ? 0.0f : share > 1.0f ? 1.0f : share;
            inputs[(all.n_columns + k) * BP + b] = (share - bin[2 * all.n_bins]) / bin[3 * all.n_bins];
        }
        __syncthreads();
        for (int l = 0; l < last; l++) {
            hidden_layer<false>(mem, layers[l], mem + layers[l + 1].input, BP, all.batch, all.activation);
            __syncthreads();
        }
        last_layer(mem, layers[last], sums, BP, all.batch);
        __syncthreads();
        for (int b = threadIdx.x; b < n; b += THREADS) {
            float mean = 0.0f, raw = 0.0f;
            for (int part = 0; part < PARTS; part++) {
                mean += sums[part * 2 * BP + b];
                raw += sums[(part * 2 + 1) * BP + b];
            }
            all.means[number * all.n_rows + start + b] = mean;
            all.variances[number * all.n_rows + start + b] =
                fmaxf(raw, 0.0f) + log1pf(expf(-fabsf(raw))) + MIN_VARIANCE;
        }
        __syncthreads();
    }
}
