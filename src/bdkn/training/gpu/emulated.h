// What kernel.cu needs of CUDA, for a C++ compiler: the threads of a block are threads of the system.
// Blocks run one after the other. This is for tests on machines without a GPU; it is slow.
#include <algorithm>
#include <barrier>
#include <cmath>
#include <thread>
#include <vector>

#define EMULATED
#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(n)
#define __shared__ static
#define SHARED_MEMORY(name) float *name = emulated_memory

using std::min;
struct float2 { float x, y; };
struct float4 { float x, y, z, w; };
typedef float4 Four;
struct Index { int x; };
static thread_local Index threadIdx;
static Index blockIdx;
static float *emulated_memory;
static std::barrier<> *emulated_barrier;
static void __syncthreads() { emulated_barrier->arrive_and_wait(); }
static void copy_later(float *to, const float *from) { *to = *from; }
static void copies_arrive() {}
static float quotient(float a, float b) { return a / b; }
static float root_of(float a) { return std::sqrt(a); }
