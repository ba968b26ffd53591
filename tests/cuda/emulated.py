"""Kernels of CUDA text run by the CPU: a C++ compiler makes a library of them, blocks run one after the other, their threads in turn."""

import atexit
import ctypes
import hashlib
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
_COMMAND = [COMPILER, "-std=c++20", "-O0", "-ffp-contract=off", "-w", "-fpermissive", "-fPIC"]
_HEAD = """#include <cmath>
#include <cstring>
#include <vector>
#include <ucontext.h>
using std::fma; using std::sqrt; using std::fabs; using std::floor; using std::ceil; using std::trunc; using std::rint;
struct dim { int x, y, z; };
struct alignas(8) uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
#ifdef __aarch64__
#define _Float16 __fp16
#endif
// the threads of a block take turns: one goes on until it has to wait for others
struct Turn { ucontext_t context; dim place; bool over; };
static std::vector<Turn> turns;
static std::vector<char> stacks;
static ucontext_t outside;
static int current;
static void let_others() { swapcontext(&turns[current].context, &outside); }
struct Barrier {
  int need, arrived, generation;
  void wait() {
    int mine = generation;
    if (++arrived == need) { arrived = 0; ++generation; }
    else while (generation == mine) let_others();
  }
};
static Barrier block_barrier;
static std::vector<Barrier> warp_barriers;
static int exchanged[1024];
static dim blockIdx, blockDim, gridDim;
#define threadIdx (turns[current].place)
#define __global__
#define __device__
#define __forceinline__ inline
#define __shared__ static
#define __launch_bounds__(n)
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
// no thread is ever in the middle of these
template <class T> T atomicAdd(T* place, T value) { T old = *place; *place = old + value; return old; }
template <class T> T atomicCAS(T* place, T expected, T made) { T old = *place; if (old == expected) *place = made; return old; }
template <class To, class From> To bits(From f) { To t; std::memcpy(&t, &f, sizeof(t)); return t; }
#define __float_as_int bits<int, float>
#define __float_as_uint bits<unsigned, float>
#define __int_as_float bits<float, int>
#define __uint_as_float bits<float, unsigned>
#define __double_as_longlong bits<long long, double>
#define __longlong_as_double bits<double, long long>
static float from_half(unsigned short h) {
  int e = (h >> 10) & 31, m = h & 1023;
  float f = e == 31 ? (m ? NAN : INFINITY) : e ? std::ldexp(1024.0f + m, e - 25) : std::ldexp((float)m, -24);
  return h & 0x8000 ? -f : f;
}
static unsigned short to_half(float f) {
  int e = 0, sign = std::signbit(f) ? 0x8000 : 0;
  float a = std::fabs(f);
  if (a != a) return 0x7fff;
  if (a >= 65520.0f) return sign | 0x7c00;
  if (a < 0x1p-14f) return sign | (int)std::nearbyint(a * 0x1p24f);
  std::frexp(a, &e);
  return sign | (((e + 13) << 10) + (int)std::nearbyint(std::ldexp(a, 11 - e)));
}
static int __popc(unsigned x) { return __builtin_popcount(x); }
"""
_INSTRUCTIONS = {  # of GPUs, and what does the same here
    'asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));': "f = from_half(h);",
    'asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f));': "h = to_half(f);",
}
_TAIL = """
static void** given;
static void one() {{
  {name}({arguments});
  turns[current].over = true;
}}
extern "C" void emulate(void** arguments, int gx, int gy, int threads) {{
  given = arguments;
  gridDim = {{gx, gy, 1}}; blockDim = {{threads, 1, 1}};
  turns.resize(threads); stacks.resize(threads * {stack}L);
  for (int y = 0; y < gy; ++y) for (int x = 0; x < gx; ++x) {{
    blockIdx = {{x, y, 0}};
    block_barrier = {{threads, 0, 0}};
    warp_barriers.assign((threads + 31) / 32, {{threads < 32 ? threads : 32, 0, 0}});
    for (int t = 0; t < threads; ++t) {{
      Turn& turn = turns[t];
      getcontext(&turn.context);
      turn.context.uc_stack.ss_sp = &stacks[t * {stack}L];
      turn.context.uc_stack.ss_size = {stack};
      turn.context.uc_link = &outside;
      turn.place = {{t, 0, 0}}; turn.over = false;
      makecontext(&turn.context, one, 0);
    }}
    for (int left = threads; left;) {{
      left = 0;
      for (current = 0; current < threads; ++current) if (!turns[current].over) {{
        swapcontext(&outside, &turns[current].context);
        left += !turns[current].over;
      }}
    }}
  }}
}}
"""
_STACK = 1 << 16  # bytes of each thread's


def _header():
    """What all kernels include, compiled before them: that takes longer than any of them."""
    path = _folder / f"{hashlib.sha256(_HEAD.encode()).hexdigest()[:24]}.hpp"
    if not path.with_suffix(".hpp.gch").exists():
        path.write_text(_HEAD)
        subprocess.run([*_COMMAND, "-x", "c++-header", str(path)], check=True)
    return path


def compiled(name, text):
    """A function (grid, block, addresses of arguments) that does what the kernel does."""
    found = _libraries.get(text)
    if found is None:
        parameters = re.search(rf"void (?:__launch_bounds__\(\d+\) )?{name}\(([^)]*)\)", text).group(1).split(", ")
        kinds = [p.rpartition(" ")[0].replace("__restrict__", "").strip() for p in parameters]
        arguments = ", ".join(f"*({kind}*)given[{k}]" for k, kind in enumerate(kinds))
        source = text.replace('extern "C"', "static")
        for instruction, same in _INSTRUCTIONS.items():
            source = source.replace(instruction, same)
        source += _TAIL.format(name=name, arguments=arguments, stack=_STACK)
        key = hashlib.sha256((_HEAD + source).encode()).hexdigest()[:24]
        path = _folder / f"{key}.so"
        if not path.exists():
            header = _header()
            (_folder / f"{key}.cpp").write_text(source)
            command = [*_COMMAND, "-include", str(header), "-shared", "-o", str(path), str(_folder / f"{key}.cpp")]
            subprocess.run(command, check=True)
        found = _libraries[text] = ctypes.PyDLL(str(path)).emulate, kinds  # one thread at a time
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
        kept = [np.array(_word(a), np.int64) if not isinstance(a, np.generic) else np.array(a) for a in args]
        self.run(grid, block, [k.ctypes.data for k in kept])

    def run(self, grid, block, addresses):
        assert len(addresses) == len(self.kinds), (self.name, len(addresses), self.kinds)
        sizes = [*grid, 1]
        self.function((ctypes.c_void_p * len(addresses))(*addresses), sizes[0], sizes[1], block[0])


def _word(a):
    if hasattr(a, "data") and hasattr(a.data, "ptr"):
        return a.data.ptr
    return np.float64(a).view(np.int64) if isinstance(a, float) else a
