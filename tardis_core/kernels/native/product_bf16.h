/* Products of factors rounded to bfloat16, added up in float32.
 *
 * Both factors are stored in tiles of 1 KB. A tile of A has 16 rows of 32 numbers; a tile of B has 32
 * rows of 16 columns, two rows interleaved: the instructions multiply pairs of numbers. B is packed in
 * panels of one tile's width, each a stream of tiles. Depths are filled up with zeros. */

typedef uint16_t half; /* the upper half of a float */

enum { PANEL = 16, TILE_DEPTH = 32, TILE = PANEL * TILE_DEPTH };
enum { LINES = 2, STRIP = 32 };
enum { GRADIENT_DEPTH = 512, GRADIENT_COLUMNS = 256 }; /* for the second-level cache */

static int64_t tiles(int64_t depth) { return (depth + TILE_DEPTH - 1) / TILE_DEPTH; }
static int64_t padded_depth(int64_t depth) { return tiles(depth) * TILE_DEPTH; }
static int64_t packed_size(int64_t depth, int64_t width) { /* in numbers of type `real` */
    return tiles(depth) * ((width + PANEL - 1) / PANEL) * TILE / 2;
}
static int64_t transposed_size(int64_t depth, int64_t columns) { return packed_size(depth, columns); }

/* Where element [k][n] of B is. */
static half *packed_at(const Packed *b, int64_t k, int64_t n) {
    int64_t tile = n / PANEL * tiles(b->depth) + k / TILE_DEPTH;
    return (half *)b->data + tile * TILE + k % TILE_DEPTH / 2 * 2 * PANEL + n % PANEL * 2 + k % 2;
}

/* Store a part of a row, within one panel; its elements are `step` apart, or zero without `from`. */
static void put(const Packed *b, int64_t k, int64_t n, const real *from, int64_t step, int64_t count) {
    half *to = packed_at(b, k, n);
    for (int64_t i = 0; i < count; i++)
        to[2 * i] = from ? (half)_mm_extract_epi16(
                               (__m128i)_mm_cvtneps_pbh(_mm_set_ss(from[i * step])), 0)
                         : 0;
}

/* What fills the last tiles of panels up must be numbers: zero times anything else is not zero. */
static void clear_end(const Packed *b, int64_t first, int64_t last) {
    for (int64_t i = first; i < last; i++)
        memset(packed_at(b, padded_depth(b->depth) - TILE_DEPTH, i * PANEL), 0, TILE * sizeof(half));
}

/* Pairs of numbers of two rows, the first `count` (up to 16). */
static inline __m512i pairs(const real *even, const real *odd, int64_t count) {
    static const uint16_t interleaved[32] = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                             8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    __m512 a = even ? (__m512)load_n(even, count) : _mm512_setzero_ps();
    __m512 b = odd ? (__m512)load_n(odd, count) : _mm512_setzero_ps();
    return _mm512_permutexvar_epi16(_mm512_loadu_si512(interleaved),
                                    (__m512i)_mm512_cvtne2ps_pbh(b, a));
}

/* Two rows of B, the first an even one. */
static void put_lines(const Packed *b, int64_t k, int64_t n, const Line *lines, int64_t count) {
    real scaled[LINES][PANEL];
    const real *from[LINES];
    for (int i = 0; i < LINES; i++) {
        from[i] = lines[i].from;
        if (lines[i].scale == 1 || !from[i]) continue;
        scale_into(scaled[i], from[i], lines[i].scale, count);
        from[i] = scaled[i];
    }
    _mm512_mask_storeu_epi32(packed_at(b, k, n), (__mmask16)((1u << count) - 1),
                             pairs(from[0], from[1], count));
}

typedef struct { /* of C: up to two by two tiles */
    int64_t depth; /* in tiles */
    const half *A[2], *B[2];
    real *C;
    int64_t ldc, rows, width; /* of C from here on: there may be fewer or more than a block has */
    int add;
} Block;

#ifdef AMX
#include "tiles_amx.h"
#else
#include "tiles_vector.h"
#endif

/* C (+)= A B of tiles; `next_a` and `next_b` tiles lie between the beginnings of two strips of A and of
   two panels of B. */
static void multiply(int64_t rows, int64_t width, int64_t depth, const half *A, int64_t next_a,
                     const half *B, int64_t next_b, real *C, int64_t ldc, int add) {
    begin_blocks();
    for (int64_t n = 0; n < width; n += 2 * PANEL)
        for (int64_t m = 0; m < rows; m += 2 * PANEL) {
            Block block = {
                .depth = depth,
                .A = {A + m / PANEL * next_a * TILE, A + (m / PANEL + 1) * next_a * TILE},
                .B = {B + n / PANEL * next_b * TILE, B + (n / PANEL + 1) * next_b * TILE},
                .C = C + m * ldc + n,
                .ldc = ldc,
                .rows = rows - m,
                .width = width - n,
                .add = add,
            };
            multiply_block(&block);
        }
    end_blocks();
}

enum { ROWS = 128, PIECE = 1024 }; /* of A at a time: 256 KB of the stack */

/* Rows of A as tiles; a strip after the other. */
static void round_rows(int64_t rows, int64_t depth, const real *A, int64_t lda, half *to) {
    for (int64_t m0 = 0; m0 < rows; m0 += PANEL)
        for (int64_t k = 0; k < depth; k += TILE_DEPTH, to += TILE)
            for (int64_t m = 0; m < PANEL; m++) {
                const real *from = A + (m0 + m) * lda + k;
                __m512 low = _mm512_setzero_ps(), high = low;
                if (m0 + m < rows) {
                    low = (__m512)load_n(from, depth - k);
                    if (k + VL < depth) high = (__m512)load_n(from + VL, depth - k - VL);
                }
                _mm512_storeu_si512(to + m * TILE_DEPTH, (__m512i)_mm512_cvtne2ps_pbh(high, low));
            }
}

/* C (+)= A B */
static void packed_product(int64_t rows, const real *A, int64_t lda, const Packed *b, real *C,
                           int64_t ldc, int add) {
    _Alignas(64) half rounded[ROWS * PIECE];
    for (int64_t m = 0; m < rows; m += ROWS)
        for (int64_t k = 0; k < b->depth; k += PIECE) {
            int64_t here = rows - m < ROWS ? rows - m : ROWS;
            int64_t depth = b->depth - k < PIECE ? b->depth - k : PIECE;
            round_rows(here, depth, A + m * lda + k, lda, rounded);
            multiply(here, b->width, tiles(depth), rounded, tiles(depth), packed_at(b, k, 0),
                     tiles(b->depth), C + m * ldc, ldc, add || k);
        }
}

/* Exchange rows and columns of 16 x 16 numbers of 32 bits: in four rounds, each between rows that are
   twice as far apart. */
static inline void exchange(__m512i *x) {
    __m512i y[16];
    UNROLLED
    for (int i = 0; i < 8; i++) { /* neighbours: pairs of 32 bits */
        y[2 * i] = _mm512_unpacklo_epi32(x[2 * i], x[2 * i + 1]);
        y[2 * i + 1] = _mm512_unpackhi_epi32(x[2 * i], x[2 * i + 1]);
    }
    UNROLLED
    for (int i = 0; i < 4; i++) { /* pairs of 64 bits */
        UNROLLED
        for (int j = 0; j < 2; j++) {
            x[4 * i + 2 * j] = _mm512_unpacklo_epi64(y[4 * i + j], y[4 * i + j + 2]);
            x[4 * i + 2 * j + 1] = _mm512_unpackhi_epi64(y[4 * i + j], y[4 * i + j + 2]);
        }
    }
    UNROLLED
    for (int i = 0; i < 4; i++) { /* quarters of a vector, from the rows 4 and then 8 apart */
        __m512i low = _mm512_shuffle_i32x4(x[i], x[i + 4], 0x88);
        __m512i high = _mm512_shuffle_i32x4(x[i], x[i + 4], 0xdd);
        __m512i low8 = _mm512_shuffle_i32x4(x[i + 8], x[i + 12], 0x88);
        __m512i high8 = _mm512_shuffle_i32x4(x[i + 8], x[i + 12], 0xdd);
        y[i] = _mm512_shuffle_i32x4(low, low8, 0x88);
        y[i + 8] = _mm512_shuffle_i32x4(low, low8, 0xdd);
        y[i + 4] = _mm512_shuffle_i32x4(high, high8, 0x88);
        y[i + 12] = _mm512_shuffle_i32x4(high, high8, 0xdd);
    }
    memcpy(x, y, sizeof y);
}

/* C (+)= A^T B; A is depth x columns. `room` is for its tiles. */
static void product_transposed(int64_t columns, const real *A, int64_t lda, const Packed *b,
                               real *C, int64_t ldc, int add, real *room) {
    half *to = (half *)room;
    for (int64_t m = 0; m < columns; m += PANEL)
        for (int64_t k = 0; k < b->depth; k += TILE_DEPTH, to += TILE) {
            __m512i lines[16];
            for (int64_t i = 0; i < 16; i++) {
                const real *from = A + (k + 2 * i) * lda + m;
                int64_t left = b->depth - k - 2 * i;
                lines[i] = pairs(left > 0 ? from : NULL, left > 1 ? from + lda : NULL, columns - m);
            }
            exchange(lines);
            memcpy(to, lines, sizeof lines);
        }
    multiply(columns, b->width, tiles(b->depth), (half *)room, tiles(b->depth), (half *)b->data,
             tiles(b->depth), C, ldc, add);
}
