"""CUDA text of attention for 16-bit floats: blocks of queries meet blocks of keys in registers, and the matrix of scores is never stored.

A warp has 16 rows: of queries (forwards, and for their gradient) or of keys (for the gradients of keys and values). What
they meet lies in shared memory, the next block being fetched while one is dealt with. Products are tensor cores' `mma` of
16 x 8 x 16; a pair of its results, rounded, is the left operand of the next product. Exponentials are powers of two of
scores times log2(e); backwards makes them again from what forwards kept of each row, the logarithm of its sum.
"""

from __future__ import annotations

WARPS = 4
ROWS = 16 * WARPS  # that a block of threads has
WIDEST = 128  # elements of a row, at most; a multiple of STEP
STEP = 16

_SHORT = {
    "bf16": ("bf16", "cvt.rn.bf16x2.f32", "__uint_as_float((unsigned)bits << 16)"),
    "f16": ("f16", "cvt.rn.f16x2.f32", "from_half(bits)"),
}

_COMMON = r"""
typedef unsigned short half_bits;
typedef unsigned int word;
typedef long long number;

__device__ __forceinline__ float from_half(half_bits bits) {
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
  return x;
}
__device__ __forceinline__ float wide(half_bits bits) { return WIDE_EXPRESSION; }
__device__ __forceinline__ word pair(float low, float high) {
  word made;
  asm("PAIR_INSTRUCTION %0, %1, %2;" : "=r"(made) : "f"(high), "f"(low));
  return made;
}
__device__ __forceinline__ void multiply(float* c, const word* a, word b0, word b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.SHORT.SHORT.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ __forceinline__ word shared_place(const void* p) { return (word)__cvta_generic_to_shared(p); }
__device__ __forceinline__ void fetch(half_bits* to, const half_bits* from, bool there) {
  int bytes = there ? 16 : 0;
  if ((unsigned long long)from % 16) {  // operands may begin anywhere
    #pragma unroll
    for (int i = 0; i < 8; ++i) to[i] = there ? from[i] : 0;
    return;
  }
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(shared_place(to)), "l"(from), "r"(bytes));
}
__device__ __forceinline__ void fetched() { asm volatile("cp.async.commit_group;"); }
template <int left> __device__ __forceinline__ void arrived() { asm volatile("cp.async.wait_group %0;" :: "n"(left)); }

// Rows of a matrix as they lie in shared memory: some elements apart, so that reads of a warp meet no bank twice.
#define PITCH (WIDTH + 8)
typedef half_bits Rows[PITCH];

// A block of rows on its way to shared memory; rows beyond the last are zeros.
template <int rows> __device__ __forceinline__ void bring(Rows* to, const half_bits* from, number row_step, int first, int count) {
  #pragma unroll
  for (int i = threadIdx.x; i < rows * (WIDTH / 8); i += THREADS) {
    int row = i / (WIDTH / 8), part = i % (WIDTH / 8);
    bool there = first + row < count;
    fetch(&to[row][8 * part], from + (there ? (first + row) * row_step : 0) + 8 * part, there);
  }
}
__device__ __forceinline__ word two(const half_bits* from) {
  return (unsigned long long)from % 4 ? from[0] | (word)from[1] << 16 : *(const word*)from;
}
// The left operands of a warp's 16 rows.
__device__ __forceinline__ void left_rows(word (*a)[4], const half_bits* from, number row_step, int first, int count) {
  int lane = threadIdx.x % 32, row = lane / 4, at = 2 * (lane % 4);
  #pragma unroll
  for (int k = 0; k < WIDTH / 16; ++k) {
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
      int r = first + row + 8 * (i % 2), d = 16 * k + at + 8 * (i / 2);
      a[k][i] = r < count ? two(from + r * row_step + d) : 0;
    }
  }
}
// Four 8 x 8 matrices for all threads of a warp: the lanes say where their rows begin.
__device__ __forceinline__ void four(word* b, const half_bits* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3]) : "r"(shared_place(row)));
}
__device__ __forceinline__ void four_turned(word* b, const half_bits* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3]) : "r"(shared_place(row)));
}
// c += a times the rows' transpose, for each of a warp's tiles: 16 x `columns`.
template <int tiles, int columns> __device__ __forceinline__ void by_rows(
    float (*c)[columns / 8][4], word (*a)[WIDTH / 16][4], const Rows* rows) {
  int lane = threadIdx.x % 32;
  #pragma unroll
  for (int j = 0; j < columns / 16; ++j) {
    #pragma unroll
    for (int k = 0; k < WIDTH / 16; ++k) {
      word b[4];
      four(b, &rows[16 * j + lane % 8 + 8 * (lane / 16)][16 * k + 8 * (lane / 8 % 2)]);
      #pragma unroll
      for (int t = 0; t < tiles; ++t) {
        multiply(c[t][2 * j], a[t][k], b[0], b[1]);
        multiply(c[t][2 * j + 1], a[t][k], b[2], b[3]);
      }
    }
  }
}
// c += s (16 x `count`, results of a product that are rounded here) times the rows, for each of a warp's tiles: 16 x WIDTH.
template <int tiles, int count> __device__ __forceinline__ void by_columns(
    float (*c)[WIDTH / 8][4], float (*s)[count / 8][4], const Rows* rows) {
  int lane = threadIdx.x % 32;
  #pragma unroll
  for (int k = 0; k < count / 16; ++k) {
    word a[tiles][4];
    #pragma unroll
    for (int t = 0; t < tiles; ++t) {
      #pragma unroll
      for (int i = 0; i < 4; ++i) a[t][i] = pair(s[t][2 * k + i / 2][2 * (i % 2)], s[t][2 * k + i / 2][2 * (i % 2) + 1]);
    }
    #pragma unroll
    for (int j = 0; j < WIDTH / 16; ++j) {
      word b[4];
      four_turned(b, &rows[16 * k + lane % 16][16 * j + 8 * (lane / 16)]);
      #pragma unroll
      for (int t = 0; t < tiles; ++t) {
        multiply(c[t][2 * j], a[t], b[0], b[1]);
        multiply(c[t][2 * j + 1], a[t], b[2], b[3]);
      }
    }
  }
}
__device__ __forceinline__ void store_rows(half_bits* to, number row_step, float (*c)[4], float low, float high, int first, int count) {
  int lane = threadIdx.x % 32, row = first + lane / 4, at = 2 * (lane % 4);
  #pragma unroll
  for (int j = 0; j < WIDTH / 8; ++j) {
    if (row < count) *(word*)(to + row * row_step + 8 * j + at) = pair(c[j][0] * low, c[j][1] * low);
    if (row + 8 < count) *(word*)(to + (row + 8) * row_step + 8 * j + at) = pair(c[j][2] * high, c[j][3] * high);
  }
}
__device__ __forceinline__ float power(float x) {  // of two, to the precision of the rounded products that it goes into
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ __forceinline__ float of_row(float x, bool largest) {
  #pragma unroll
  for (int away = 1; away < 4; away *= 2) {
    float other = __shfl_xor_sync(0xffffffff, x, away);
    x = largest ? fmaxf(x, other) : x + other;
  }
  return x;
}
"""

_FORWARD = r"""
extern "C" __global__ void __launch_bounds__(THREADS) attention_forward(
    const half_bits* q, const half_bits* k, const half_bits* v, half_bits* out, float* totals,
    number q_batch, number q_head, number q_row, number k_batch, number k_head, number k_row,
    number v_batch, number v_head, number v_row, number o_batch, number o_head, number o_row,
    number heads, number group, number length, number keys, double scale, number causal) {
  __shared__ __align__(16) Rows key_rows[2][KEYS], value_rows[2][KEYS];
  int block = gridDim.x - 1 - blockIdx.x, batch = blockIdx.y / heads, head = blockIdx.y % heads;
  int first = TILES * ROWS * block, warp_first = first + 16 * TILES * (threadIdx.x / 32), lane = threadIdx.x % 32;
  q += batch * q_batch + head * q_head;
  k += batch * k_batch + head / group * k_head;
  v += batch * v_batch + head / group * v_head;
  out += batch * o_batch + head * o_head;
  word a[TILES][WIDTH / 16][4];
  float made[TILES][WIDTH / 8][4] = {}, most[TILES][2], sum[TILES][2] = {};
  #pragma unroll
  for (int t = 0; t < TILES; ++t) {
    left_rows(a[t], q, q_row, warp_first + 16 * t, length);
    most[t][0] = most[t][1] = NOTHING;
  }
  float steep = scale * 1.4426950408889634;
  int last = causal ? min((int)keys, first + TILES * ROWS) : (int)keys, count = (last + KEYS - 1) / KEYS;
  bring<KEYS>(key_rows[0], k, k_row, 0, keys);
  bring<KEYS>(value_rows[0], v, v_row, 0, keys);
  fetched();
  for (int n = 0; n < count; ++n) {
    if (n + 1 < count) {
      bring<KEYS>(key_rows[(n + 1) % 2], k, k_row, KEYS * (n + 1), keys);
      bring<KEYS>(value_rows[(n + 1) % 2], v, v_row, KEYS * (n + 1), keys);
    }
    fetched();
    arrived<1>();
    __syncthreads();
    float s[TILES][KEYS / 8][4] = {};
    by_rows<TILES, KEYS>(s, a, key_rows[n % 2]);
    #pragma unroll
    for (int t = 0; t < TILES; ++t) {
      int row = warp_first + 16 * t + lane / 4, column = KEYS * n + 2 * (lane % 4);
      bool edge = KEYS * (n + 1) > keys || (causal && KEYS * (n + 1) > warp_first + 16 * t);
      #pragma unroll
      for (int h = 0; h < 2; ++h) {
        float largest = most[t][h];
        #pragma unroll
        for (int j = 0; j < KEYS / 8; ++j) {
          #pragma unroll
          for (int i = 2 * h; i < 2 * h + 2; ++i) {
            int c = column + 8 * j + i % 2;
            if (edge && (c >= keys || (causal && c > row + 8 * h))) s[t][j][i] = NOTHING;
            largest = fmaxf(largest, s[t][j][i]);
          }
        }
        largest = of_row(largest, true);
        float base = largest == NOTHING ? 0.0f : -steep * largest, shrink = power(fmaf(most[t][h], steep, base)), part = 0.0f;
        most[t][h] = largest;
        #pragma unroll
        for (int j = 0; j < KEYS / 8; ++j) {
          #pragma unroll
          for (int i = 2 * h; i < 2 * h + 2; ++i) {
            s[t][j][i] = power(fmaf(s[t][j][i], steep, base));
            part += s[t][j][i];
          }
        }
        sum[t][h] = sum[t][h] * shrink + part;
        #pragma unroll
        for (int j = 0; j < WIDTH / 8; ++j) {
          made[t][j][2 * h] *= shrink;
          made[t][j][2 * h + 1] *= shrink;
        }
      }
    }
    by_columns<TILES, KEYS>(made, s, value_rows[n % 2]);
    __syncthreads();
  }
  #pragma unroll
  for (int t = 0; t < TILES; ++t) {
    float all[2] = {of_row(sum[t][0], false), of_row(sum[t][1], false)};
    int tile = warp_first + 16 * t;
    store_rows(out, o_row, made[t], all[0] > 0 ? 1.0f / all[0] : 0.0f, all[1] > 0 ? 1.0f / all[1] : 0.0f, tile, length);
    for (int h = 0; h < 2; ++h) {
      int row = tile + lane / 4 + 8 * h;
      if (lane % 4 == 0 && row < length)
        totals[(number)blockIdx.y * length + row] = fmaf(most[t][h], steep, log2f(all[h])) * 0.6931471805599453f;
    }
  }
}
"""

_BACKWARD = r"""
// For each query: the sum of the products of its result and of that one's gradient.
extern "C" __global__ void attention_dots(
    const half_bits* out, const half_bits* g, float* dots, number o_batch, number o_head, number o_row,
    number g_batch, number g_head, number g_row, number heads, number length, number rows) {
  number row = (number)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
  if (row >= rows) return;
  number at = row % length, head = row / length % heads, batch = row / length / heads;
  out += batch * o_batch + head * o_head + at * o_row;
  g += batch * g_batch + head * g_head + at * g_row;
  float sum = 0.0f;
  for (int i = threadIdx.x % 32; i < WIDTH; i += 32) sum += wide(out[i]) * wide(g[i]);
  for (int away = 16; away; away /= 2) sum += __shfl_xor_sync(0xffffffff, sum, away);
  if (threadIdx.x % 32 == 0) dots[row] = sum;
}

extern "C" __global__ void __launch_bounds__(THREADS) attention_by_queries(
    const half_bits* q, const half_bits* k, const half_bits* v, const half_bits* g, const float* totals, const float* dots,
    half_bits* by_q, number q_batch, number q_head, number q_row, number k_batch, number k_head, number k_row,
    number v_batch, number v_head, number v_row, number g_batch, number g_head, number g_row,
    number m_batch, number m_head, number m_row, number heads, number group, number length, number keys, double scale, number causal) {
  __shared__ __align__(16) Rows key_rows[2][MET], value_rows[2][MET];
  int block = gridDim.x - 1 - blockIdx.x, batch = blockIdx.y / heads, head = blockIdx.y % heads;
  int first = ROWS * block, warp_first = first + 16 * (threadIdx.x / 32), lane = threadIdx.x % 32;
  q += batch * q_batch + head * q_head;
  g += batch * g_batch + head * g_head;
  k += batch * k_batch + head / group * k_head;
  v += batch * v_batch + head / group * v_head;
  by_q += batch * m_batch + head * m_head;
  word a[WIDTH / 16][4], b[WIDTH / 16][4];
  left_rows(a, q, q_row, warp_first, length);
  left_rows(b, g, g_row, warp_first, length);
  float made[WIDTH / 8][4] = {}, total[2], dot[2], steep = scale * 1.4426950408889634;
  for (int h = 0; h < 2; ++h) {
    int row = warp_first + lane / 4 + 8 * h;
    total[h] = row < length ? totals[(number)blockIdx.y * length + row] * 1.4426950408889634f : 0.0f;
    dot[h] = row < length ? dots[(number)blockIdx.y * length + row] : 0.0f;
  }
  int last = causal ? min((int)keys, first + ROWS) : (int)keys, count = (last + MET - 1) / MET;
  bring<MET>(key_rows[0], k, k_row, 0, keys);
  bring<MET>(value_rows[0], v, v_row, 0, keys);
  fetched();
  for (int n = 0; n < count; ++n) {
    if (n + 1 < count) {
      bring<MET>(key_rows[(n + 1) % 2], k, k_row, MET * (n + 1), keys);
      bring<MET>(value_rows[(n + 1) % 2], v, v_row, MET * (n + 1), keys);
    }
    fetched();
    arrived<1>();
    __syncthreads();
    float s[MET / 8][4] = {}, p[MET / 8][4] = {};
    by_rows<1, MET>(&s, &a, key_rows[n % 2]);
    by_rows<1, MET>(&p, &b, value_rows[n % 2]);
    int row = warp_first + lane / 4, column = MET * n + 2 * (lane % 4);
    #pragma unroll
    for (int j = 0; j < MET / 8; ++j) {
      #pragma unroll
      for (int i = 0; i < 4; ++i) {
        int c = column + 8 * j + i % 2;
        bool seen = c < keys && !(causal && c > row + 8 * (i / 2));
        s[j][i] = seen ? power(fmaf(s[j][i], steep, -total[i / 2])) * (p[j][i] - dot[i / 2]) : 0.0f;
      }
    }
    by_columns<1, MET>(&made, &s, key_rows[n % 2]);
    __syncthreads();
  }
  store_rows(by_q, m_row, made, scale, scale, warp_first, length);
}

extern "C" __global__ void __launch_bounds__(THREADS) attention_by_keys(
    const half_bits* q, const half_bits* k, const half_bits* v, const half_bits* g, const float* totals, const float* dots,
    half_bits* by_k, half_bits* by_v, number q_batch, number q_head, number q_row, number k_batch, number k_head, number k_row,
    number v_batch, number v_head, number v_row, number g_batch, number g_head, number g_row,
    number m_batch, number m_head, number m_row, number n_batch, number n_head, number n_row,
    number heads, number group, number length, number keys, double scale, number causal) {
  __shared__ __align__(16) Rows query_rows[2][MET], gradient_rows[2][MET];
  __shared__ float of_queries[2][2][MET];
  int shared_heads = heads / group, batch = blockIdx.y / shared_heads, own = blockIdx.y % shared_heads;
  int first = ROWS * blockIdx.x, warp_first = first + 16 * (threadIdx.x / 32), lane = threadIdx.x % 32;
  k += batch * k_batch + own * k_head;
  v += batch * v_batch + own * v_head;
  word a[WIDTH / 16][4], b[WIDTH / 16][4];
  left_rows(a, k, k_row, warp_first, keys);
  left_rows(b, v, v_row, warp_first, keys);
  float made_k[WIDTH / 8][4] = {}, made_v[WIDTH / 8][4] = {}, steep = scale * 1.4426950408889634;
  int begin = causal ? first / MET : 0, each = max((int)((length + MET - 1) / MET) - begin, 0), count = each * group;
  auto start = [&](int n) {
    int head = own * group + n / each, at = MET * (begin + n % each);
    number line = (number)(batch * heads + head) * length;
    bring<MET>(query_rows[n % 2], q + batch * q_batch + head * q_head, q_row, at, length);
    bring<MET>(gradient_rows[n % 2], g + batch * g_batch + head * g_head, g_row, at, length);
    if (threadIdx.x < MET) {
      bool there = at + threadIdx.x < length;
      of_queries[n % 2][0][threadIdx.x] = there ? totals[line + at + threadIdx.x] * 1.4426950408889634f : 0.0f;
      of_queries[n % 2][1][threadIdx.x] = there ? dots[line + at + threadIdx.x] : 0.0f;
    }
  };
  if (count) start(0);
  fetched();
  for (int n = 0; n < count; ++n) {
    if (n + 1 < count) start(n + 1);
    fetched();
    arrived<1>();
    __syncthreads();
    float s[MET / 8][4] = {}, p[MET / 8][4] = {};
    by_rows<1, MET>(&s, &a, query_rows[n % 2]);
    by_rows<1, MET>(&p, &b, gradient_rows[n % 2]);
    int row = warp_first + lane / 4, place = 2 * (lane % 4), at = MET * (begin + n % each);
    #pragma unroll
    for (int j = 0; j < MET / 8; ++j) {
      #pragma unroll
      for (int i = 0; i < 4; ++i) {
        int c = place + 8 * j + i % 2, key = row + 8 * (i / 2);
        bool seen = at + c < length && key < keys && !(causal && key > at + c);
        float share = seen ? power(fmaf(s[j][i], steep, -of_queries[n % 2][0][c])) : 0.0f;
        p[j][i] = share * (p[j][i] - of_queries[n % 2][1][c]);
        s[j][i] = share;
      }
    }
    by_columns<1, MET>(&made_v, &s, gradient_rows[n % 2]);
    by_columns<1, MET>(&made_k, &p, query_rows[n % 2]);
    __syncthreads();
  }
  store_rows(by_k + batch * m_batch + own * m_head, m_row, made_k, scale, scale, warp_first, keys);
  store_rows(by_v + batch * n_batch + own * n_head, n_row, made_v, 1.0f, 1.0f, warp_first, keys);
}
"""


def tiles(width: int) -> int:
    """How many tiles of 16 queries a warp has forwards: two meet what it reads once."""
    return 2 if width <= 64 else 1


def _text(body: str, code: str, width: int, met: int, name: str) -> str:
    short, pair, wide = _SHORT[code]
    common = _COMMON.replace("WIDE_EXPRESSION", wide).replace("PAIR_INSTRUCTION", pair).replace("SHORT", short)
    sizes = f"#define WIDTH {width}\n#define TILES {tiles(width)}\n#define {name} {met}\n#define ROWS {ROWS}\n#define THREADS {32 * WARPS}\n#define NOTHING __int_as_float(0xff800000)\n"
    return sizes + common + body


def forward(code: str, width: int) -> str:
    """The kernel `attention_forward` for rows of `width` elements."""
    return _text(_FORWARD, code, width, 64 if width <= 64 else 32, "KEYS")


def backward(code: str, width: int) -> str:
    """The kernels `attention_dots`, `attention_by_queries` and `attention_by_keys`."""
    return _text(_BACKWARD, code, width, 64 if width <= 64 else 32, "MET")
