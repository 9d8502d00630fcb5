// The functions of CUDA that kernel.cu uses, for a C++ compiler: the threads of a block take turns at every barrier, and
// blocks run one after the other. This is for tests on machines without a GPU; it is slow.
#include <algorithm>
#include <cmath>
#include <vector>
#include <ucontext.h>

#define EMULATED
#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static
#define SHARED_MEMORY(name) float *name = emulated_memory

using std::max;
using std::min;
struct float2 { float x, y; };
struct float4 { float x, y, z, w; };
struct Index { int x; };
static Index threadIdx, blockIdx;
static float *emulated_memory;
static ucontext_t emulated_host, emulated_threads[THREADS];
static void __syncthreads() {
    int me = threadIdx.x, next = (me + 1) % THREADS;
    threadIdx.x = next;
    swapcontext(&emulated_threads[me], &emulated_threads[next]);
    threadIdx.x = me;
}
static void copy_later(float *to, const float *from) { *to = *from; }
static void copy_four_later(float *to, const float *from) { std::copy(from, from + 4, to); }
static void copies_arrive() {}
static float logarithm(float a) { return std::log(a); }
static float quotient(float a, float b) { return a / b; }
static float root_of(float a) { return std::sqrt(a); }
