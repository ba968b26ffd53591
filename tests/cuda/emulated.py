"""Kernels of CUDA text run by the CPU: a C++ compiler makes a library of them, blocks run one after the other, their threads in turn."""

import atexit
import ctypes
import functools
import pathlib
import re
import shutil
import subprocess
import tempfile

import numpy as np

COMPILER = shutil.which("g++")
_folder = pathlib.Path(tempfile.mkdtemp(prefix="flambeau_kernels_")) if COMPILER else None
atexit.register(shutil.rmtree, _folder or "", ignore_errors=True)
_libraries = {}
_COMMAND = [COMPILER, "-std=c++20", "-ffp-contract=off", "-w", "-fpermissive", "-fPIC", "-fno-exceptions"]
_WORDS = """struct dim { int x, y, z; };
struct Barrier { int need, arrived, generation; void wait(); };
extern dim blockIdx, blockDim, gridDim, places[1024];
extern int current, exchanged[1024];
extern Barrier block_barrier, warp_barriers[32];
float from_half(unsigned short h);
unsigned short to_half(float f);
"""
# What runs all kernels. The threads of a block take turns: one goes on until it has to wait for others. Each keeps its stack from block
# to block, and jumps leave signals alone: what the system has for it asks the kernel each time.
_MACHINE = (
    _WORDS
    + """#include <cmath>
#include <csetjmp>
#include <cstdlib>
#include <ucontext.h>
dim blockIdx, blockDim, gridDim, places[1024];
int current, exchanged[1024];
Barrier block_barrier, warp_barriers[32];
static jmp_buf outside, inside[1024];
static bool begun[1024], over[1024];
static void (*kernel)(void**);
static void** given;
static void let_others() { if (!_setjmp(inside[current])) _longjmp(outside, 1); }
void Barrier::wait() {
  int mine = generation;
  if (++arrived == need) { arrived = 0; ++generation; }
  else while (generation == mine) let_others();
}
static void work() {
  for (;;) { kernel(given); over[current] = true; let_others(); }
}
static void go_on() {
  if (_setjmp(outside)) return;
  if (begun[current]) _longjmp(inside[current], 1);
  begun[current] = true;
  ucontext_t start;
  getcontext(&start);
  start.uc_stack.ss_sp = std::malloc(STACK);
  start.uc_stack.ss_size = STACK;
  start.uc_link = nullptr;
  makecontext(&start, work, 0);
  setcontext(&start);
}
extern "C" void emulate(void (*function)(void**), void** arguments, int gx, int gy, int threads) {
  kernel = function; given = arguments;
  gridDim = {gx, gy, 1}; blockDim = {threads, 1, 1};
  for (int y = 0; y < gy; ++y) for (int x = 0; x < gx; ++x) {
    blockIdx = {x, y, 0};
    block_barrier = {threads, 0, 0};
    for (int w = 0; w < 32; ++w) warp_barriers[w] = {threads < 32 ? threads : 32, 0, 0};
    for (int t = 0; t < threads; ++t) { places[t] = {t, 0, 0}; over[t] = false; }
    for (int left = threads; left;) {
      left = 0;
      for (current = 0; current < threads; ++current) if (!over[current]) { go_on(); left += !over[current]; }
    }
  }
}
float from_half(unsigned short h) {
  int e = (h >> 10) & 31, m = h & 1023;
  float f = e == 31 ? (m ? NAN : INFINITY) : e ? std::ldexp(1024.0f + m, e - 25) : std::ldexp((float)m, -24);
  return h & 0x8000 ? -f : f;
}
unsigned short to_half(float f) {
  int e = 0, sign = std::signbit(f) ? 0x8000 : 0;
  float a = std::fabs(f);
  if (a != a) return 0x7fff;
  if (a >= 65520.0f) return sign | 0x7c00;
  if (a < 0x1p-14f) return sign | (int)std::nearbyint(a * 0x1p24f);
  std::frexp(a, &e);
  return sign | (((e + 13) << 10) + (int)std::nearbyint(std::ldexp(a, 11 - e)));
}
"""
)
# What all kernels include. It includes nothing itself: the headers of the library take longer than any kernel.
_HEAD = (
    _WORDS
    + """#define ONE(name) extern "C" double name(double); extern "C" float name##f(float); \\
  inline float name(float a) { return name##f(a); }
#define TWO(name) extern "C" double name(double, double); extern "C" float name##f(float, float); \\
  inline float name(float a, float b) { return name##f(a, b); }
ONE(sqrt) ONE(fabs) ONE(floor) ONE(ceil) ONE(trunc) ONE(rint) ONE(exp) ONE(log2) TWO(copysign) TWO(fmin) TWO(fmax)
extern "C" double fma(double, double, double); extern "C" float fmaf(float, float, float);
inline float fma(float a, float b, float c) { return fmaf(a, b, c); }
struct alignas(8) uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
#ifdef __aarch64__
#define _Float16 __fp16
#endif
#define threadIdx (places[current])
#define __global__
#define __device__
#define __forceinline__ inline
#define __shared__ static
#define __launch_bounds__(...)
#define __restrict__
static void __syncthreads() { block_barrier.wait(); }
static int __shfl_xor_sync(unsigned, int value, int away) {
  int t = threadIdx.x;
  exchanged[t] = value; warp_barriers[t / 32].wait();
  int got = exchanged[t ^ away]; warp_barriers[t / 32].wait();
  return got;
}
static int __shfl_up_sync(unsigned, int value, int away, int width) {
  int t = threadIdx.x;
  exchanged[t] = value; warp_barriers[t / 32].wait();
  int got = exchanged[t % width < away ? t : t - away]; warp_barriers[t / 32].wait();
  return got;
}
static void __syncwarp() { warp_barriers[threadIdx.x / 32].wait(); }
static unsigned __ballot_sync(unsigned, int value) {
  int t = threadIdx.x;
  unsigned set = 0;
  exchanged[t] = value; warp_barriers[t / 32].wait();
  for (int lane = 0; lane < 32; ++lane) set |= (unsigned)(exchanged[t / 32 * 32 + lane] != 0) << lane;
  warp_barriers[t / 32].wait();
  return set;
}
// no thread is ever in the middle of these
template <class T> T atomicOr(T* place, T value) { T old = *place; *place = old | value; return old; }
template <class T> T atomicAdd(T* place, T value) { T old = *place; *place = old + value; return old; }
template <class T> T atomicCAS(T* place, T expected, T made) { T old = *place; if (old == expected) *place = made; return old; }
template <class To, class From> To bits(From f) { To t; __builtin_memcpy(&t, &f, sizeof(t)); return t; }
#define __float_as_int bits<int, float>
#define __float_as_uint bits<unsigned, float>
#define __int_as_float bits<float, int>
#define __uint_as_float bits<float, unsigned>
#define __double_as_longlong bits<long long, double>
#define __longlong_as_double bits<double, long long>
static void __threadfence() {}
static int __popc(unsigned x) { return __builtin_popcount(x); }
"""
)
_INSTRUCTIONS = {  # of GPUs, and what does the same here
    'asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));': "f = from_half(h);",
    'asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f));': "h = to_half(f);",
}
_STACK = 1 << 16  # bytes of each thread's


@functools.cache
def _machine():
    """What runs kernels; they find its variables by their names."""
    path = _folder / "machine"
    path.with_suffix(".cpp").write_text(_MACHINE)
    source, library = str(path.with_suffix(".cpp")), str(path.with_suffix(".so"))
    subprocess.run(
        [*_COMMAND, "-O1", "-U_FORTIFY_SOURCE", f"-DSTACK={_STACK}", "-shared", "-o", library, source], check=True
    )
    return ctypes.PyDLL(library, ctypes.RTLD_GLOBAL).emulate  # for one thread at a time


@functools.cache
def _header():
    path = _folder / "head.hpp"
    path.write_text(_HEAD)
    return path


def compiled(name, text):
    """A kernel's address, and the types of its arguments."""
    found = _libraries.get(text)
    if found is None:
        parameters = re.search(rf"void (?:__launch_bounds__\([^)]*\) )?{name}\(([^)]*)\)", text).group(1).split(", ")
        kinds = [p.rpartition(" ")[0].replace("__restrict__", "").strip() for p in parameters]
        arguments = ", ".join(f"*({kind}*)given[{k}]" for k, kind in enumerate(kinds))
        source = text.replace('extern "C"', "static")
        for instruction, same in _INSTRUCTIONS.items():
            source = source.replace(instruction, same)
        source += f'extern "C" void entry(void** given) {{ {name}({arguments}); }}\n'
        _machine()
        path = _folder / f"{len(_libraries)}"
        path.with_suffix(".cpp").write_text(source)
        command = [
            *_COMMAND,
            "-O0",
            "-include",
            str(_header()),
            "-shared",
            "-nostdlib",
            "-o",
            f"{path}.so",
            f"{path}.cpp",
            "-lgcc",
        ]
        subprocess.run(command, check=True)  # functions of the library are those that the machine brought
        found = _libraries[text] = ctypes.CDLL(f"{path}.so").entry, kinds
    return found


class Kernel:
    """A kernel as CuPy has it."""

    by_number = {}
    natively = 0

    def __init__(self, name, text):
        self.name, (self.function, self.kinds) = name, compiled(name, text)
        self.ptr = 1000 + len(Kernel.by_number)
        Kernel.by_number[self.ptr] = self

    def __call__(self, grid, block, args):
        assert 0 not in grid  # CuPy would start a block nevertheless
        kept = [np.array(_word(a), np.int64) if not isinstance(a, np.generic) else np.array(a) for a in args]
        self.run(grid, block, [k.ctypes.data for k in kept])

    def run(self, grid, block, addresses):
        assert len(addresses) == len(self.kinds), (self.name, len(addresses), self.kinds)
        sizes = [*grid, 1]
        _machine()(self.function, (ctypes.c_void_p * len(addresses))(*addresses), sizes[0], sizes[1], block[0])


def _word(a):
    if hasattr(a, "data") and hasattr(a.data, "ptr"):
        return a.data.ptr
    return np.float64(a).view(np.int64) if isinstance(a, float) else a
