/* Products of numbers as they are.
 *
 * Packed means: the columns of B in panels of NV vectors, each panel row by row, so that the inner loop
 * reads it in one stream. A block of MR x NV accumulators stays in registers. A panel is taken in
 * pieces that the rows of A find in the nearest caches; while they use one, the next is fetched. */

#define NV 3
#define PANEL (NV * VL)
enum { PIECE = 256 }; /* the most rows of a panel at a time */
enum { LINES = 1 };   /* rows of B that are stored together */
enum { STRIP = MR };  /* columns of A^T at a time */

/* For gradients: so many rows at a time that a panel stays in the first-level cache, and so many
   columns of A^T that their part of the result stays in the second-level cache. */
enum { GRADIENT_DEPTH = 160, GRADIENT_COLUMNS = 400 };

static int64_t padded_depth(int64_t depth) { return depth; }
static int64_t packed_size(int64_t depth, int64_t width) { /* in numbers of type `real` */
    return depth * ((width + VL - 1) / VL) * VL;
}
static int64_t transposed_size(int64_t depth, int64_t columns) { return depth * columns; }

/* Where element [k][n] of B is: the panels before it hold whole multiples of PANEL columns. */
static real *packed_at(const Packed *b, int64_t k, int64_t n) {
    int64_t n0 = n / PANEL * PANEL, left = b->width - n0;
    int64_t padded = left < PANEL ? (left + VL - 1) / VL * VL : PANEL;
    return b->data + n0 * b->depth + k * padded + (n - n0);
}

/* Store a part of a row, within one panel; its elements are `step` apart, or zero without `from`. */
static void put(const Packed *b, int64_t k, int64_t n, const real *from, int64_t step, int64_t count) {
    real *to = packed_at(b, k, n);
    if (!from) zero(to, count);
    else if (step == 1) copy(to, from, count);
    else
        for (int64_t i = 0; i < count; i++) to[i] = from[i * step];
}

static void clear_end(const Packed *b, int64_t first, int64_t last) {
    (void)b, (void)first, (void)last; /* nothing fills a panel up from below */
}

static void put_lines(const Packed *b, int64_t k, int64_t n, const Line *line, int64_t count) {
    scale_into(packed_at(b, k, n), line->from, line->scale, count);
}

typedef struct { /* what to fetch meanwhile: a line of the cache at every so many bytes */
    const char *from;
    int64_t step;
} Next;

static inline ALWAYS_INLINE void block(
    const int rows, const int vectors, int64_t depth, const real *restrict A, int64_t row,
    int64_t column, const real *restrict B, real *restrict C, int64_t ldc, int64_t width, int add,
    Next next) {
    vec acc[MR][NV];
    UNROLLED
    for (int i = 0; i < rows; i++) {
        UNROLLED
        for (int j = 0; j < vectors; j++) acc[i][j] = (vec){0};
    }
    for (int64_t k = 0; k < depth; k++, A += column, B += vectors * VL, next.from += next.step) {
        __builtin_prefetch(next.from, 0, 2); /* to the second level */
        vec b[NV];
        UNROLLED
        for (int j = 0; j < vectors; j++) b[j] = load(B + j * VL);
        UNROLLED
        for (int i = 0; i < rows; i++) {
            real a = A[i * row];
            UNROLLED
            for (int j = 0; j < vectors; j++) acc[i][j] += a * b[j];
        }
    }
    UNROLLED
    for (int i = 0; i < rows; i++) {
        UNROLLED
        for (int j = 0; j < vectors; j++) {
            real *to = C + i * ldc + j * VL;
            int64_t n = width - j * VL;
            store_n(to, add ? acc[i][j] + load_n(to, n) : acc[i][j], n);
        }
    }
}

typedef void block_fn(int64_t depth, const real *A, int64_t row, int64_t column, const real *B,
                      real *C, int64_t ldc, int64_t width, int add, Next next);

#define BLOCK(rows, vectors)                                                                     \
    static void CAT3(block, rows, vectors)(int64_t depth, const real *A, int64_t row,            \
                                           int64_t column, const real *B, real *C, int64_t ldc,  \
                                           int64_t width, int add, Next next) {                  \
        block(rows, vectors, depth, A, row, column, B, C, ldc, width, add, next);                \
    }
#define BLOCKS(vectors) \
    BLOCK(1, vectors) BLOCK(2, vectors) BLOCK(3, vectors) BLOCK(4, vectors) MORE_BLOCKS(vectors)
#define NAME(rows, vectors) CAT3(block, rows, vectors)
#define NAMES(vectors) \
    { NAME(1, vectors), NAME(2, vectors), NAME(3, vectors), NAME(4, vectors) MORE_NAMES(vectors) }
#if MR == 8
#define MORE_BLOCKS(vectors) BLOCK(5, vectors) BLOCK(6, vectors) BLOCK(7, vectors) BLOCK(8, vectors)
#define MORE_NAMES(vectors) \
    , NAME(5, vectors), NAME(6, vectors), NAME(7, vectors), NAME(8, vectors)
#else
#define MORE_BLOCKS(vectors)
#define MORE_NAMES(vectors)
#endif
BLOCKS(1) BLOCKS(2) BLOCKS(3)
static block_fn *const block_table[NV][MR] = {NAMES(1), NAMES(2), NAMES(3)};

/* C (+)= A B */
static void packed_product(int64_t rows, const real *A, int64_t lda, const Packed *b, real *C,
                           int64_t ldc, int add) {
    int64_t blocks = (rows + MR - 1) / MR, pieces = (b->depth + PIECE - 1) / PIECE;
    for (int64_t n0 = 0; n0 < b->width; n0 += PANEL) {
        int64_t width = b->width - n0 < PANEL ? b->width - n0 : PANEL, vectors = (width + VL - 1) / VL;
        int64_t line = vectors * VL, step = line * (int64_t)sizeof(real) / blocks;
        const real *panel = b->data + n0 * b->depth;
        for (int64_t j = 0, k0 = 0, k1; j < pieces; j++, k0 = k1) { /* of nearly equal depth */
            k1 = (j + 1) * b->depth / pieces;
            Next next = {(const char *)(panel + k1 * line), step};
            for (int64_t i = 0, m0 = 0, m1; i < blocks; i++, m0 = m1) { /* and height */
                m1 = (i + 1) * rows / blocks;
                block_table[vectors - 1][m1 - m0 - 1](k1 - k0, A + m0 * lda + k0, lda, 1,
                                                      panel + k0 * line, C + m0 * ldc + n0, ldc,
                                                      width, add || j, next);
                next.from += (k1 - k0) * step;
            }
        }
    }
}

enum { ROWS_AT_ONCE = 8 }; /* to copy: few enough to be fetched ahead, as they come from far */

/* C (+)= A^T B; A is depth x columns and is copied to `room`, as large, in strips of MR columns. */
static void product_transposed(int64_t columns, const real *A, int64_t lda, const Packed *b,
                               real *C, int64_t ldc, int add, real *room) {
    for (int64_t k0 = 0; k0 < b->depth; k0 += ROWS_AT_ONCE)
        for (int64_t m0 = 0; m0 < columns; m0 += MR) {
            int64_t here = columns - m0 < MR ? columns - m0 : MR;
            int64_t k1 = k0 + ROWS_AT_ONCE < b->depth ? k0 + ROWS_AT_ONCE : b->depth;
            real *strip = room + m0 * b->depth;
            for (int64_t k = k0; k < k1; k++) {
                const real *from = A + k * lda + m0;
                if (here == MR) memcpy(strip + k * MR, from, sizeof(real) * MR); /* of known size */
                else copy(strip + k * here, from, here);
            }
        }
    for (int64_t n0 = 0; n0 < b->width; n0 += PANEL) {
        int64_t width = b->width - n0 < PANEL ? b->width - n0 : PANEL;
        block_fn *const *fit = block_table[(width + VL - 1) / VL - 1];
        for (int64_t m0 = 0; m0 < columns; m0 += MR) {
            int64_t here = columns - m0 < MR ? columns - m0 : MR;
            const real *strip = room + m0 * b->depth;
            Next next = {(const char *)(strip + here * b->depth), here * (int64_t)sizeof(real)};
            fit[here - 1](b->depth, strip, 1, here, b->data + n0 * b->depth, C + m0 * ldc + n0, ldc,
                          width, add, next);
        }
    }
}
