// Trains networks on a GPU: one block of threads trains one network, from its first to its last step. The program at the
// end of the file predicts with networks.
//
// Weights, Adam's moments and the activations of a batch are in the shared memory of a multiprocessor; with very many
// inputs the moments of the first layer are in global memory. Rows of the next batch are copied while the current one is
// computed.
//
// All products are computed by warps, in tiles of 16 x 8 numbers, by tensor cores if the GPU has them. Their operands are
// numbers of single precision that are cut to 11 bits ("tf32"). For products in single precision each operand is split
// into two such parts, and three of the four products of parts are added; the fourth is below single precision.
//
// Matrices in shared memory, with BP the batch padded to a multiple of eight:
//   weights of a layer        [n_in + 1, padded][n_out, padded]  row k holds the weights of input k, row n_in the bias
//   inputs of a layer         [BP][n_in + 1, padded]             column n_in is one
//   deltas of a layer         [BP][n_out, padded]                after the forward pass the slopes of the activation
// Padding is zero, and stays zero.
//
// With WIDTH and BATCH the programs are for networks whose hidden layers have this width, not a multiple of eight, and for
// batches of this size: constants save the computation of addresses, which would take most of the time. With TF32 operands
// are not split. With PREDICT the program is the one that predicts.

#ifndef THREADS
#define THREADS 512
#endif
#ifndef WIDTH
#define WIDTH 0
#endif
#ifndef BATCH
#define BATCH 0
#endif
#ifndef TF32
#define TF32 0
#endif
#define WARPS (THREADS / 32)
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
#if __CUDA_ARCH__ >= 800
#define TENSOR_CORES
__device__ __forceinline__ void copy_later(float *to, const float *from) {
    unsigned place = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(place), "l"(from));
}
__device__ __forceinline__ void copy_four_later(float *to, const float *from) {
    unsigned place = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(place), "l"(from));
}
__device__ __forceinline__ void copies_arrive() {
    asm volatile("cp.async.commit_group;");
    asm volatile("cp.async.wait_group 0;" ::: "memory");
}
#else
__device__ __forceinline__ void copy_later(float *to, const float *from) { *to = *from; }
__device__ __forceinline__ void copy_four_later(float *to, const float *from) {
    *reinterpret_cast<float4 *>(to) = *reinterpret_cast<const float4 *>(from);
}
__device__ __forceinline__ void copies_arrive() {}
#endif
__device__ __forceinline__ float quotient(float a, float b) { return __fdividef(a, b); }
__device__ __forceinline__ float logarithm(float a) { return __logf(a); }
__device__ __forceinline__ float root_of(float a) {
    float root;
    asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(root) : "f"(a));
    return root;
}
#endif

__device__ __forceinline__ int padded(int n) { return (n + 7) & ~7; }

// A matrix in shared memory: its first number, and the length of its rows, a multiple of eight. The columns of a row are
// exchanged in groups of four, so that the threads of a warp that load a part of 8 x 4 or 4 x 8 numbers read 32 different
// banks of the memory.
struct Matrix {
    int at, ld;
};

__device__ __forceinline__ int exchange(int ld, int row) {
    int more = ld & 8 ? 0 : ld & 16 ? (row << 2) & 8 : (row << 3) & 24;
    return more | (row & 4);
}

__device__ __forceinline__ int place(Matrix matrix, int row, int column) {
    return matrix.at + row * matrix.ld + (column ^ exchange(matrix.ld, row));
}

// A thread of a warp holds of a tile of 16 x 8 numbers those in rows group and group + 8, columns 2 * member and
// 2 * member + 1.
struct Lane {
    int group, member;
};

__device__ __forceinline__ Lane my_lane() { return {int(threadIdx.x) % 32 / 4, int(threadIdx.x) % 4}; }

#ifdef TENSOR_CORES
// The numbers of a thread for an operand whose rows are summed over: rows member and member + 4 of a part of eight rows, and
// columns group, group + 8, ... of N parts of eight columns.
template <int N> struct AlongRows {
    int at[N][2], step;
    __device__ __forceinline__ AlongRows(Matrix matrix, int start, Lane lane) : step(8 * matrix.ld) {
#pragma unroll
        for (int i = 0; i < N; i++) {
            int column = (start + 8 * i + lane.group) ^ exchange(matrix.ld, lane.member);
            at[i][0] = matrix.at + lane.member * matrix.ld + column;
            at[i][1] = matrix.at + (lane.member + 4) * matrix.ld + (column ^ 4);
        }
    }
    __device__ __forceinline__ void load(const float *mem, int part, float (&into)[N][2]) const {
#pragma unroll
        for (int i = 0; i < N; i++) {
            into[i][0] = mem[at[i][0] + part * step];
            into[i][1] = mem[at[i][1] + part * step];
        }
    }
};

// The same if its columns are summed over: columns member and member + 4, and rows group, group + 8, ...
template <int N> struct AlongColumns {
    int at, next, first, exchanged;
    __device__ __forceinline__ AlongColumns(Matrix matrix, int start, Lane lane) : next(8 * matrix.ld) {
        int all = exchange(matrix.ld, lane.group);
        at = matrix.at + (start + lane.group) * matrix.ld;
        first = lane.member ^ (all & 4);
        exchanged = all & 24;
    }
    __device__ __forceinline__ void load(const float *mem, int part, float (&into)[N][2]) const {
        int column = at + ((8 * part) ^ exchanged);
#pragma unroll
        for (int i = 0; i < N; i++) {
            into[i][0] = mem[column + i * next + first];
            into[i][1] = mem[column + i * next + (first ^ 4)];
        }
    }
};

template <bool ROWS, int N> struct Operand;
template <int N> struct Operand<true, N> : AlongRows<N> { using AlongRows<N>::AlongRows; };
template <int N> struct Operand<false, N> : AlongColumns<N> { using AlongColumns<N>::AlongColumns; };

__device__ __forceinline__ void multiply(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// A number as tensor cores read it: they ignore the last 13 bits. With SPLIT, ``rest`` is the part that they ignore.
template <bool SPLIT> __device__ __forceinline__ unsigned operand_of(float x, unsigned &rest) {
    unsigned bits = __float_as_uint(x);
    if (SPLIT) {
        rest = __float_as_uint(x - __uint_as_float(bits & 0xffffe000u));
    } else {
        asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
    }
    return bits;
}
#endif

// Add to N tiles side by side, from (row, column) on, the product of A and B, summed over ``count`` numbers, a multiple of
// eight; COUNT is their number if it is constant, else 0. A is (row, k), or (k, row) if A_ROWS, and B is (column, k), or
// (k, column) if B_ROWS.
template <bool A_ROWS, bool B_ROWS, int N, int COUNT, bool SPLIT>
__device__ __forceinline__ void product(const float *mem, Matrix A, int row, Matrix B, int column, int count,
                                        float (&c)[N][4]) {
    Lane lane = my_lane();
#ifdef TENSOR_CORES
    Operand<A_ROWS, 2> from_a(A, row, lane);
    Operand<B_ROWS, N> from_b(B, column, lane);
    float rest[2][N][4] = {};  // sums of their own: a multiplication would wait for the one before
    constexpr int unrolled = COUNT ? COUNT / 8 : 4;
    const int parts = COUNT ? COUNT / 8 : count / 8;
#pragma unroll unrolled
    for (int part = 0; part < parts; part++) {
        float a[2][2], b[N][2];
        from_a.load(mem, part, a);
        from_b.load(mem, part, b);
        unsigned high[4], low[4];
#pragma unroll
        for (int i = 0; i < 4; i++) high[i] = operand_of<SPLIT>(a[i % 2][i / 2], low[i]);
#pragma unroll
        for (int n = 0; n < N; n++) {
            unsigned b_high[2], b_low[2];
#pragma unroll
            for (int i = 0; i < 2; i++) b_high[i] = operand_of<SPLIT>(b[n][i], b_low[i]);
            multiply(c[n], high, b_high);
            if (SPLIT) {
                multiply(rest[0][n], high, b_low);
                multiply(rest[1][n], low, b_high);
            }
        }
    }
    if (SPLIT) {
#pragma unroll
        for (int n = 0; n < N; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) c[n][i] += rest[0][n][i] + rest[1][n][i];
    }
#else
    for (int n = 0; n < N; n++)
        for (int i = 0; i < 4; i++) {
            int r = row + lane.group + i / 2 * 8, s = column + 8 * n + 2 * lane.member + i % 2;
            for (int k = 0; k < count; k++)
                c[n][i] += mem[A_ROWS ? place(A, k, r) : place(A, r, k)] * mem[B_ROWS ? place(B, k, s) : place(B, s, k)];
        }
#endif
}

// The places of one layer in shared memory; ``rows`` and ``ld`` are those of its weights.
struct Layer {
    int n_in, n_out, rows, ld, weights, first, second, input, delta;
    __device__ __forceinline__ Matrix W() const { return {weights, ld}; }
    __device__ __forceinline__ Matrix inputs() const { return {input, rows}; }
    __device__ __forceinline__ Matrix deltas() const { return {delta, ld}; }
};

// Sizes that are constant for networks of one width; 0 where they are not.
constexpr int INNER = WIDTH ? (WIDTH + 8) & ~7 : 0, OUTER = WIDTH ? 8 : 0, ROWS_OF_BATCH = (BATCH + 7) & ~7;

enum { FIRST, HIDDEN, LAST, ANY };  // kinds of layers: the first and the last are different ones; any, if nothing is known

template <int KIND> __device__ __forceinline__ Layer layer_of(const Layer *layers, int l) {
    Layer layer = layers[l];
    if (WIDTH && KIND != ANY) {
        if (KIND != FIRST) layer.rows = INNER;
        if (KIND != FIRST) layer.n_in = WIDTH;
        layer.ld = KIND == LAST ? OUTER : INNER;
        layer.n_out = KIND == LAST ? 2 : WIDTH;
    }
    return layer;
}

__device__ __forceinline__ float2 &two(float *place) { return *reinterpret_cast<float2 *>(place); }

__device__ __forceinline__ float activated(float z, int code, float &slope) {
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
    float s = quotient(1.0f, 1.0f + expf(-z));
    slope = s * (1.0f + z * (1.0f - s));
    return z * s;
}

#ifndef FORWARD_TILES
#define FORWARD_TILES 1
#define DELTA_TILES 1
#define UPDATE_TILES 1
#endif

__device__ __forceinline__ int parts_of(int n, int size) { return (n + size - 1) / size; }

// A hidden layer; its outputs are the inputs of the layer ``next``. Training needs the slopes of the activation, prediction
// does not.
template <int KIND, bool TRAINS, bool SPLIT>
__device__ __forceinline__ void hidden_layer(float *mem, const Layer &layer, Matrix out, int BP, int code) {
    constexpr int N = FORWARD_TILES, COUNT = KIND == HIDDEN ? INNER : 0;
    Lane lane = my_lane();
    int down = parts_of(BP, 16), tiles = down * parts_of(layer.ld, 8 * N);
    for (int tile = threadIdx.x / 32; tile < tiles; tile += WARPS) {
        int row = tile % down * 16, column = tile / down * 8 * N;
        float z[N][4] = {};
        product<false, true, N, COUNT, SPLIT>(mem, layer.inputs(), row, layer.W(), column, layer.rows, z);
#pragma unroll
        for (int n = 0; n < N; n++)
#pragma unroll
            for (int i = 0; i < 2; i++) {
                int b = row + lane.group + 8 * i, o = column + 8 * n + 2 * lane.member;
                if (b >= BP || o >= layer.n_out) continue;
                float2 a, slope;
                a.x = activated(z[n][2 * i], code, slope.x);
                a.y = activated(z[n][2 * i + 1], code, slope.y);
                if (o + 1 == layer.n_out) {
                    a.y = 1.0f;
                    slope.y = 0.0f;
                }
                two(mem + place(out, b, o)) = a;
                if (TRAINS) two(mem + place(layer.deltas(), b, o)) = slope;
            }
    }
}

// All hidden layers. ``inputs`` is the first layer with the inputs of this batch.
template <bool TRAINS, bool SPLIT>
__device__ __forceinline__ void forward(float *mem, const Layer *layers, int last, const Layer &inputs, int BP, int code) {
    Matrix out = layers[1].inputs();
    if (WIDTH && TRAINS) out.ld = INNER;
    hidden_layer<FIRST, TRAINS, SPLIT>(mem, inputs, out, BP, code);
    __syncthreads();
    for (int l = 1; l < last; l++) {
        out.at = layers[l + 1].input;
        out.ld = WIDTH && TRAINS ? INNER : layers[l + 1].rows;
        if (TRAINS) {
            hidden_layer<HIDDEN, TRAINS, SPLIT>(mem, layer_of<HIDDEN>(layers, l), out, BP, code);
        } else {
            hidden_layer<ANY, TRAINS, SPLIT>(mem, layers[l], out, BP, code);
        }
        __syncthreads();
    }
}

// The two outputs of 16 rows, from row ``start`` on: half of the threads of a warp get those of one row each, whose number
// is returned; others get -1.
template <int KIND, bool SPLIT>
__device__ __forceinline__ int outputs_of(const float *mem, const Layer &layer, int start, float &mean, float &raw) {
    Lane lane = my_lane();
    constexpr int COUNT = KIND == LAST ? INNER : 0;
    float z[1][4] = {};
#ifdef EMULATED
    product<false, true, 1, COUNT, SPLIT>(mem, layer.inputs(), start, layer.W(), -2 * lane.member, layer.rows, z);
#else
    product<false, true, 1, COUNT, SPLIT>(mem, layer.inputs(), start, layer.W(), 0, layer.rows, z);
#pragma unroll
    for (int i = 0; i < 4; i++) z[0][i] = __shfl_sync(0xffffffffu, z[0][i], 4 * lane.group);
#endif
    mean = lane.member ? z[0][2] : z[0][0];
    raw = lane.member ? z[0][3] : z[0][1];
    return lane.member < 2 ? start + lane.group + 8 * lane.member : -1;
}

// log(1 + t) for t from 0 to 1.
__device__ __forceinline__ float log_of_one_and(float t) {
    return t < 0.03f ? t * (1.0f - t * (0.5f - t * (1.0f / 3.0f - t * 0.25f))) : logarithm(1.0f + t);
}

// The loss of a row, and its gradient by the outputs, divided by the number of rows.
__device__ __forceinline__ float loss_of(float mean, float raw, float y, float weight, int objective, float beta, float share,
                                         float2 &delta) {
    float error = mean - y;
    if (objective == MSE) {
        delta.x = weight * error * share;
        delta.y = 0.0f;
        return weight * error * error * 0.5f;
    }
    float t = expf(-fabsf(raw)), v = fmaxf(raw, 0.0f) + log_of_one_and(t) + MIN_VARIANCE;
    float log_v = logarithm(v), inverse = quotient(1.0f, v), z = error * inverse;
    float w = objective == BETA_NLL ? weight * expf(beta * log_v) : weight;
    float sigmoid = quotient(raw >= 0.0f ? 1.0f : t, 1.0f + t);
    delta.x = w * z * share;
    delta.y = w * (1.0f - error * z) * inverse * 0.5f * sigmoid * share;
    return w * (log_v + error * z) * 0.5f;
}

// The outputs of all rows, the gradient of the loss by them, and the sum of the losses of this thread's rows. The batch
// has ``n`` rows; the others are padding.
template <int KIND, bool SPLIT>
__device__ __forceinline__ float loss_layer(float *mem, const Layer &layer, int BP, int n, int objective, float beta,
                                            const float *targets) {
    float total = 0.0f, share = quotient(1.0f, float(n));
    for (int start = threadIdx.x / 32 * 16; start < BP; start += 16 * WARPS) {
        float mean, raw;
        int b = outputs_of<KIND, SPLIT>(mem, layer, start, mean, raw);
        if (b < 0 || b >= BP) continue;
        float2 delta = {0.0f, 0.0f};
        if (b < n) total += loss_of(mean, raw, targets[b], targets[BP + b], objective, beta, share, delta);
        two(mem + place(layer.deltas(), b, 0)) = delta;
    }
    return total;
}

// The deltas of the layer ``before``: its slopes times the sum over outputs.
template <int KIND, bool SPLIT>
__device__ __forceinline__ void delta_tile(float *mem, const Layer &layer, Matrix before, int BP, int tile) {
    constexpr int N = DELTA_TILES, COUNT = KIND == LAST ? OUTER : KIND == HIDDEN ? INNER : 0;
    int down = parts_of(BP, 16), row = tile % down * 16, column = tile / down * 8 * N;
    float d[N][4] = {};
    product<false, false, N, COUNT, SPLIT>(mem, layer.deltas(), row, layer.W(), column, layer.ld, d);
    Lane lane = my_lane();
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int i = 0; i < 2; i++) {
            int b = row + lane.group + 8 * i, k = column + 8 * n + 2 * lane.member;
            if (b >= BP || k >= layer.n_in) continue;
            float2 &place_of = two(mem + place(before, b, k)), slope = place_of;
            slope.x *= d[n][2 * i];
            slope.y *= d[n][2 * i + 1];
            place_of = slope;
        }
}

__device__ __forceinline__ int delta_jobs(const Layer &layer, int BP) {
    return parts_of(BP, 16) * parts_of(layer.n_in, 8 * DELTA_TILES);
}

struct Rates {
    float size, root, decay;
};

__device__ __forceinline__ void adam(float &weight, float &first, float &second, float gradient, const Rates &rate) {
    first = BETA_1 * first + REST_1 * gradient;
    second = BETA_2 * second + REST_2 * (gradient * gradient);
    weight = weight * rate.decay - quotient(first * rate.size, root_of(second) * rate.root + EPSILON);
}

// The gradient of the weights, and Adam's step.
template <int KIND, bool SPLIT>
__device__ __forceinline__ void update_tile(float *mem, const Layer &layer, float *first, float *second, int BP, int tile,
                                            const Rates &rate) {
    constexpr int N = UPDATE_TILES;
    int across = parts_of(layer.ld, 8 * N), row = tile / across * 16, column = tile % across * 8 * N;
    float g[N][4] = {};
    product<true, true, N, ROWS_OF_BATCH, SPLIT>(mem, layer.inputs(), row, layer.deltas(), column, BP, g);
    Lane lane = my_lane();
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int i = 0; i < 2; i++) {
            int k = row + lane.group + 8 * i, o = column + 8 * n;
            if (k >= layer.rows || o >= layer.ld) continue;
            int at = place({0, layer.ld}, k, o + 2 * lane.member);
            float2 &w = two(mem + layer.weights + at), &m = two(first + at), &v = two(second + at);
            float2 weight = w, moment = m, square = v;
            adam(weight.x, moment.x, square.x, g[n][2 * i], rate);
            adam(weight.y, moment.y, square.y, g[n][2 * i + 1], rate);
            w = weight;
            m = moment;
            v = square;
        }
}

__device__ __forceinline__ int update_jobs(const Layer &layer) {
    return parts_of(layer.rows, 16) * parts_of(layer.ld, 8 * UPDATE_TILES);
}

// One phase of the backward pass: the deltas of the layer before ``layer``, in parallel with the update of the layer
// ``after``, which no thread waits for.
template <int KIND, int AFTER, bool SPLIT>
__device__ __forceinline__ void backward_phase(float *mem, const Layer &layer, const Layer &before, const Layer &after, int BP,
                                               const Rates &rate) {
    int deltas = delta_jobs(layer, BP), all = deltas + update_jobs(after);
    for (int job = threadIdx.x / 32; job < all; job += WARPS) {
        if (job < deltas) {
            delta_tile<KIND, SPLIT>(mem, layer, before.deltas(), BP, job);
        } else {
            update_tile<AFTER, SPLIT>(mem, after, mem + after.first, mem + after.second, BP, job - deltas, rate);
        }
    }
    __syncthreads();
}

// The backward pass. ``inputs`` is the first layer with the inputs of this batch; first and second are its moments.
template <bool SPLIT>
__device__ __forceinline__ void backward(float *mem, const Layer *layers, int last, const Layer &inputs, float *first,
                                         float *second, int BP, const Rates &rate) {
    int updates = 0;
    if (last) {
        Layer layer = layer_of<LAST>(layers, last), before = layers[last - 1];
        if (WIDTH) before.ld = INNER;
        for (int job = threadIdx.x / 32; job < delta_jobs(layer, BP); job += WARPS)
            delta_tile<LAST, SPLIT>(mem, layer, before.deltas(), BP, job);
        __syncthreads();
        for (int l = last - 1; l > 0; l--) {
            Layer layer = layer_of<HIDDEN>(layers, l), before = layers[l - 1];
            if (WIDTH) before.ld = INNER;
            if (l + 1 == last) {
                backward_phase<HIDDEN, LAST, SPLIT>(mem, layer, before, layer_of<LAST>(layers, last), BP, rate);
            } else {
                backward_phase<HIDDEN, HIDDEN, SPLIT>(mem, layer, before, layer_of<HIDDEN>(layers, l + 1), BP, rate);
            }
        }
        updates = last == 1 ? update_jobs(layer) : update_jobs(layer_of<HIDDEN>(layers, 1));
    }
    int all = updates + update_jobs(inputs);
    for (int job = threadIdx.x / 32; job < all; job += WARPS) {
        if (job >= updates) {
            update_tile<FIRST, SPLIT>(mem, inputs, first, second, BP, job - updates, rate);
        } else if (last == 1) {
            Layer layer = layer_of<LAST>(layers, last);
            update_tile<LAST, SPLIT>(mem, layer, mem + layer.first, mem + layer.second, BP, job, rate);
        } else {
            Layer layer = layer_of<HIDDEN>(layers, 1);
            update_tile<HIDDEN, SPLIT>(mem, layer, mem + layer.first, mem + layer.second, BP, job, rate);
        }
    }
}

// Copy the inputs, targets and weights of a batch, whose row numbers lie in shared memory; warps before ``busy`` do
// not take part. The length of the rows of the table is a multiple of four.
__device__ __forceinline__ void copy_rows(const Job &job, float *mem, Matrix to, float *targets, const int *rows, int n,
                                          int BP, int busy) {
    int length = (job.inputs + 4) & ~3, warp = threadIdx.x / 32;
    if (warp < busy) return;
#pragma unroll 1
    for (int b = warp - busy; b < n; b += WARPS - busy) {
        const float *from = job.X + (long long)rows[b] * length;
        for (int k = threadIdx.x % 32 * 4; k < length; k += 128) copy_four_later(mem + place(to, b, k), from + k);
    }
    for (int b = THREADS - 1 - threadIdx.x; b < n; b += THREADS - 32 * busy) {
        copy_later(targets + b, job.y + rows[b]);
        if (job.row_weight) copy_later(targets + BP + b, job.row_weight + rows[b]);
    }
}

__device__ __forceinline__ void copy_numbers(int *to, const int *from, int n) {
    for (int b = THREADS - 1 - threadIdx.x; b < n; b += THREADS)
        copy_later(reinterpret_cast<float *>(to + b), reinterpret_cast<const float *>(from + b));
}

// Batches of row numbers, copied ahead: numbers two batches before they are used, rows one batch before.
struct Stream {
    const int *numbers;
    int n, batch, batches;
};

__device__ __forceinline__ int size_of(const Stream &stream, int step) {
    return min(stream.batch, stream.n - step * stream.batch);
}

// Copy weights from global to shared memory, or back.
__device__ void load_weights(float *mem, const Layer *layers, int n_layers, const float *from) {
    for (int l = 0; l < n_layers; l++)
        for (int i = threadIdx.x; i < layers[l].rows * layers[l].ld; i += THREADS)
            mem[place(layers[l].W(), i / layers[l].ld, i % layers[l].ld)] = from[layers[l].weights + i];
}

__device__ void store_weights(const float *mem, const Layer *layers, int n_layers, float *to) {
    for (int l = 0; l < n_layers; l++)
        for (int i = threadIdx.x; i < layers[l].rows * layers[l].ld; i += THREADS)
            to[layers[l].weights + i] = mem[place(layers[l].W(), i / layers[l].ld, i % layers[l].ld)];
}

// Write the places of the weights of each layer; return the number of weights.
__device__ int lay_out_weights(Layer *layers, int n_layers, int inputs, const int *width) {
    int at = 0, n_in = inputs;
    for (int l = 0; l < n_layers; l++) {
        Layer &layer = layers[l];
        layer.n_in = n_in;
        layer.n_out = width[l];
        layer.rows = padded(n_in + 1);
        layer.ld = padded(layer.n_out);
        layer.weights = at;
        at += layer.rows * layer.ld;
        n_in = layer.n_out;
    }
    return at;
}

// Write the places of the inputs of each layer, from ``at`` on; return the place after the last.
__device__ int lay_out_inputs(Layer *layers, int n_layers, int BP, int buffers, int at) {
    for (int l = 0; l < n_layers; l++) {
        layers[l].input = at;
        at += layers[l].rows * BP * (l == 0 ? buffers : 1);
    }
    return at;
}

__device__ void write_ones(float *mem, const Layer *layers, int n_layers, int BP) {
    for (int l = 1; l < n_layers; l++)
        for (int b = threadIdx.x; b < BP; b += THREADS) mem[place(layers[l].inputs(), b, layers[l].n_in)] = 1.0f;
}

// The sum over all threads; ``room`` has one number per thread.
__device__ float sum_of(float value, float *room) {
    room[threadIdx.x] = value;
    for (int half = THREADS / 2; half; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) room[threadIdx.x] += room[threadIdx.x + half];
    }
    __syncthreads();
    return room[0];
}

template <bool SPLIT> __device__ __forceinline__ void train_network(float *mem, const Tables &all) {
    __shared__ Layer layers[MAX_LAYERS];
    __shared__ int flags[4];
    const int number = all.start + blockIdx.x;
    const Job job = all.jobs[number];
    const int BP = BATCH ? ROWS_OF_BATCH : padded(job.batch), last = job.n_layers - 1;

    if (threadIdx.x == 0) {
        int n_weights = lay_out_weights(layers, job.n_layers, job.inputs, all.jobs[number].width);
        int skipped = job.first_moments_outside ? layers[0].rows * layers[0].ld : 0;
        for (int l = 0; l <= last; l++) {
            layers[l].first = n_weights + layers[l].weights - skipped;
            layers[l].second = 2 * n_weights - skipped + layers[l].weights - skipped;
        }
        int at = lay_out_inputs(layers, job.n_layers, BP, job.buffers, n_weights + 2 * (n_weights - skipped));
        for (int l = 0; l <= last; l++) {
            layers[l].delta = at;
            at += layers[l].ld * BP;
        }
        flags[0] = n_weights;
        flags[1] = at;
        flags[2] = all.state[3 * number];
        flags[3] = skipped;
    }
    __syncthreads();
    const int n_weights = flags[0], skipped = flags[3], input_size = layers[0].rows * BP;
    float *targets = mem + flags[1];                           // two buffers of targets and row weights
    int *numbers = reinterpret_cast<int *>(targets + 4 * BP);  // three buffers of row numbers
    float *sums = targets + 7 * BP;
    float *weights = all.weights + job.weights, *first = all.moments + 2 * job.weights, *second = first + n_weights;

    // Zeros, ones as the inputs of biases, and the state of the network.
    for (int i = threadIdx.x; i < flags[1] + 7 * BP; i += THREADS) mem[i] = 0.0f;
    __syncthreads();
    load_weights(mem, layers, job.n_layers, weights);
    for (int i = skipped + threadIdx.x; i < n_weights; i += THREADS) {
        mem[n_weights + i - skipped] = first[i];
        mem[2 * n_weights - skipped + i - skipped] = second[i];
    }
    write_ones(mem, layers, job.n_layers, BP);
    if (!job.row_weight)
        for (int b = threadIdx.x; b < BP; b += THREADS) targets[BP + b] = targets[3 * BP + b] = 1.0f;
    float *first_moments = job.first_moments_outside ? first : mem + layers[0].first;
    float *second_moments = job.first_moments_outside ? second : mem + layers[0].second;
    int best_epoch = all.state[3 * number + 2], until = min(all.until, job.epochs);
    float lowest = all.score[number];
    const int busy = min(parts_of(BP, 16), WARPS / 2);
    __syncthreads();

    for (int epoch = all.first; epoch < until && !flags[2]; epoch++) {
        int steps = (job.n_train + job.batch - 1) / job.batch;
        for (int phase = 0; phase < (job.n_val ? 2 : 1); phase++) {  // training, then validation
            int objective = !phase && epoch < job.warmup ? MSE : job.objective;
            Stream stream;
            stream.numbers = phase ? all.held_out + job.held_out
                                   : all.order + job.order + (long long)(epoch - all.first) * job.n_train;
            stream.n = phase ? job.n_val : job.n_train;
            stream.batch = job.batch;
            stream.batches = (stream.n + job.batch - 1) / job.batch;
            const float *rates = all.rates + job.rates + 3ll * epoch * steps;
            float total = 0.0f;
            copy_numbers(numbers, stream.numbers, size_of(stream, 0));
            if (stream.batches > 1) copy_numbers(numbers + BP, stream.numbers + job.batch, size_of(stream, 1));
            copies_arrive();
            __syncthreads();
            copy_rows(job, mem, layers[0].inputs(), targets, numbers, size_of(stream, 0), BP, 0);
            copies_arrive();
            __syncthreads();
            for (int step = 0; step < stream.batches; step++) {
                int n = size_of(stream, step), turn = job.buffers == 2 && step % 2 ? input_size : 0;
                Rates rate = {0.0f, 0.0f, 0.0f};
                if (!phase) {
                    rate.size = rates[3 * step];
                    rate.root = rates[3 * step + 1];
                    rate.decay = rates[3 * step + 2];
                }
                bool ahead = step + 1 < stream.batches;
                Matrix next = layers[0].inputs();
                next.at += job.buffers == 2 ? input_size - turn : 0;
                float *target = targets + step % 2 * 2 * BP, *next_target = targets + (1 - step % 2) * 2 * BP;
                const int *next_rows = numbers + (step + 1) % 3 * BP;
                Layer inputs = last ? layer_of<FIRST>(layers, 0) : layers[0];
                inputs.input += turn;
                if (last) {
                    forward<true, SPLIT>(mem, layers, last, inputs, BP, job.activation);
                    Layer top = layer_of<LAST>(layers, last);
                    total += loss_layer<LAST, SPLIT>(mem, top, BP, n, objective, job.beta, target);
                } else {
                    total += loss_layer<ANY, SPLIT>(mem, inputs, BP, n, objective, job.beta, target);
                }
                // Few warps have rows whose loss they compute; the others copy the next batch meanwhile.
                if (ahead && job.buffers == 2)
                    copy_rows(job, mem, next, next_target, next_rows, size_of(stream, step + 1), BP, busy);
                if (step + 2 < stream.batches)
                    copy_numbers(numbers + (step + 2) % 3 * BP, stream.numbers + (step + 2) * job.batch,
                                 size_of(stream, step + 2));
                __syncthreads();
                if (!phase) backward<SPLIT>(mem, layers, last, inputs, first_moments, second_moments, BP, rate);
                if (ahead && job.buffers == 1) {
                    __syncthreads();
                    copy_rows(job, mem, next, next_target, next_rows, size_of(stream, step + 1), BP, 0);
                }
                copies_arrive();
                __syncthreads();
            }
            float found = sum_of(total, sums) / stream.n;
            if (threadIdx.x == 0)
                (phase ? all.validation_losses : all.losses)[(long long)number * all.curve + epoch] = found;
            if (phase && epoch >= job.warmup) {
                if (found < lowest - job.tol) {
                    lowest = found;
                    best_epoch = epoch;
                    store_weights(mem, layers, job.n_layers, all.best + job.weights);
                } else if (threadIdx.x == 0 && epoch - best_epoch >= job.patience) {
                    flags[2] = 1;
                }
            }
            __syncthreads();
        }
        if (threadIdx.x == 0) all.state[3 * number + 1] = epoch + 1;
    }
    store_weights(mem, layers, job.n_layers, weights);
    for (int i = skipped + threadIdx.x; i < n_weights; i += THREADS) {
        first[i] = mem[n_weights + i - skipped];
        second[i] = mem[2 * n_weights - skipped + i - skipped];
    }
    if (threadIdx.x == 0) {
        all.state[3 * number] = flags[2];
        all.state[3 * number + 2] = best_epoch;
        all.score[number] = lowest;
    }
}

#ifndef PREDICT
extern "C" __global__ void __launch_bounds__(THREADS, THREADS <= 256 ? 2 : 1) train(Tables all) {
    SHARED_MEMORY(mem);
    train_network<!TF32>(mem, all);
}
#else

// Arguments of the prediction with networks of one shape. Features of bins are inputs that follow the columns.
struct Forward {
    const float *X, *weights, *bins;  // bins: lower ends, widths, means and scales of their features
    const int *bin_columns;
    float *means, *variances;         // of each network
    long long n_rows;
    int n_columns, n_bins, n_layers, activation, size, batch;
    int parts;                        // blocks that divide the rows of a network
    int width[MAX_LAYERS];
};

__device__ __forceinline__ void predict_rows(const float *mem, const Layer &layer, const Forward &all, int BP, int n,
                                             long long at) {
    for (int start = threadIdx.x / 32 * 16; start < BP; start += 16 * WARPS) {
        float mean, raw;
        int b = outputs_of<ANY, true>(mem, layer, start, mean, raw);
        if (b < 0 || b >= n) continue;
        all.means[at + b] = mean;
        all.variances[at + b] = fmaxf(raw, 0.0f) + log1pf(expf(-fabsf(raw))) + MIN_VARIANCE;
    }
}

// A block predicts some of the rows with one network, whose weights stay in shared memory.
extern "C" __global__ void __launch_bounds__(THREADS) predict(Forward all) {
    SHARED_MEMORY(mem);
    __shared__ Layer layers[MAX_LAYERS];
    __shared__ int end;
    int BP = padded(all.batch), last = all.n_layers - 1, n_inputs = all.n_columns + all.n_bins;
    long long number = blockIdx.x / all.parts, rest = blockIdx.x % all.parts;
    if (threadIdx.x == 0) {
        int n_weights = lay_out_weights(layers, all.n_layers, n_inputs, all.width);
        end = lay_out_inputs(layers, all.n_layers, BP, 1, n_weights);
    }
    __syncthreads();
    Matrix inputs = layers[0].inputs();
    for (int i = threadIdx.x; i < end; i += THREADS) mem[i] = 0.0f;
    __syncthreads();
    load_weights(mem, layers, all.n_layers, all.weights + number * all.size);
    write_ones(mem, layers, all.n_layers, BP);
    for (int b = threadIdx.x; b < BP; b += THREADS) mem[place(inputs, b, n_inputs)] = 1.0f;
    for (long long start = rest * all.batch; start < all.n_rows; start += (long long)all.parts * all.batch) {
        int n = (int)min((long long)all.batch, all.n_rows - start);
        for (int i = threadIdx.x; i < n * all.n_columns; i += THREADS)
            mem[place(inputs, i / all.n_columns, i % all.n_columns)] = all.X[start * all.n_columns + i];
        __syncthreads();
        for (int i = threadIdx.x; i < n * all.n_bins; i += THREADS) {
            int k = i % all.n_bins, b = i / all.n_bins;
            const float *bin = all.bins + k;
            float share = (mem[place(inputs, b, all.bin_columns[k])] - bin[0]) / bin[all.n_bins];
            share = share < 0.0f ? 0.0f : share > 1.0f ? 1.0f : share;
            mem[place(inputs, b, all.n_columns + k)] = (share - bin[2 * all.n_bins]) / bin[3 * all.n_bins];
        }
        __syncthreads();
        if (last) forward<false, true>(mem, layers, last, layers[0], BP, all.activation);
        predict_rows(mem, layers[last], all, BP, n, number * all.n_rows + start);
        __syncthreads();
    }
}
#endif
