/* Vectors of the machine, elementary functions on them, and one matrix product.
 * Included once for each type and instruction set; the compiler's own vector types do the rest. */

#define VL ((int64_t)(VECTOR_BYTES / sizeof(real)))

typedef real vec __attribute__((vector_size(VECTOR_BYTES)));
typedef bits ivec __attribute__((vector_size(VECTOR_BYTES)));
typedef real unaligned_vec
    __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(real)), may_alias));

static inline vec load(const real *from) { return *(const unaligned_vec *)from; }
static inline void store(real *to, vec v) { *(unaligned_vec *)to = v; }

/* The first n elements; the others are zero. */
static inline vec load_n(const real *from, int64_t n) {
    if (n >= VL) return load(from);
#ifdef LOAD_PART_f32
    return (vec)FOR_TYPE(LOAD_PART)(from, n);
#else
    vec v = {0};
    for (int64_t i = 0; i < n; i++) v[i] = from[i];
    return v;
#endif
}

static inline void store_n(real *to, vec v, int64_t n) {
    if (n >= VL) {
        store(to, v);
        return;
    }
#ifdef STORE_PART_f32
    FOR_TYPE(STORE_PART)(to, v, n);
#else
    for (int64_t i = 0; i < n; i++) to[i] = v[i];
#endif
}

/* By halves, so that the additions do not wait for each other. */
static inline real sum(vec v) {
    UNROLLED
    for (int64_t half = VL / 2; half > 0; half /= 2) {
        ivec other;
        UNROLLED
        for (int64_t i = 0; i < VL; i++) other[i] = (bits)(i ^ half);
        v += __builtin_shuffle(v, other);
    }
    return v[0];
}

/* The sums of four vectors, by halves of all at once. */
static inline void sum_4(vec a, vec b, vec c, vec d, real *to) {
    if (VL < 4) {
        to[0] = sum(a), to[1] = sum(b), to[2] = sum(c), to[3] = sum(d);
        return;
    }
    ivec low, high, even, odd;
    UNROLLED
    for (int64_t i = 0; i < VL; i++) {
        int64_t half = VL / 2, quarter = VL / 4;
        low[i] = (bits)(i < half ? i : i + half); /* the lower halves of two vectors, the upper */
        high[i] = low[i] + (bits)half;
        even[i] = (bits)(i / quarter * 2 * quarter + i % quarter); /* every other quarter of two */
        odd[i] = even[i] + (bits)quarter;
    }
    vec ab = __builtin_shuffle(a, b, low) + __builtin_shuffle(a, b, high);
    vec cd = __builtin_shuffle(c, d, low) + __builtin_shuffle(c, d, high);
    vec all = __builtin_shuffle(ab, cd, even) + __builtin_shuffle(ab, cd, odd);
    UNROLLED
    for (int64_t part = VL / 8; part > 0; part /= 2) {
        ivec other;
        UNROLLED
        for (int64_t i = 0; i < VL; i++) other[i] = (bits)(i ^ part);
        all += __builtin_shuffle(all, other);
    }
    UNROLLED
    for (int64_t i = 0; i < 4; i++) to[i] = all[i * (VL / 4)];
}

static inline int any(ivec v) {
    bits found = 0;
    for (int64_t i = 0; i < VL; i++) found |= v[i];
    return found != 0;
}

/* Not a number stays what it is. */
static inline vec clamp(vec x, real limit) {
    vec high = limit - (vec){0}, low = -limit - (vec){0};
#ifdef MINIMUM_f32
    return (vec)FOR_TYPE(MAXIMUM)(low, FOR_TYPE(MINIMUM)(high, x));
#else
    ivec above = x > high, below = x < low;
    return (vec)(((ivec)high & above) | ((ivec)low & below) | ((ivec)x & ~above & ~below));
#endif
}

/* exp(x) for |x| <= EXP_LIMIT (beyond it, that of the limit): 2^n exp(rest), |rest| <= ln 2 / 2. */
static inline vec vexp(vec x) {
    x = clamp(x, EXP_LIMIT);
    vec shifted = x * (real)1.4426950408889634 + ROUNDER; /* n in the lowest bits */
    vec n = shifted - ROUNDER;
    vec rest = (x - n * LN2_HIGH) - n * LN2_LOW;
    vec y = (real)INVERSE_FACTORIAL[EXP_TERMS] - (vec){0};
    UNROLLED
    for (int i = EXP_TERMS - 1; i >= 0; i--) y = y * rest + (real)INVERSE_FACTORIAL[i];
    ivec power = ((ivec)shifted << MANTISSA_BITS) + (ivec)((real)1 - (vec){0});
    return y * (vec)power;
}

/* 1 / x for x in [1, exp(EXP_LIMIT) + 1]. */
static inline vec reciprocal(vec x) {
#ifdef ROUGH_RECIPROCAL
    vec y = (vec)ROUGH_RECIPROCAL(x);
    return y * (2 - x * y); /* one step of Newton: from 12 or 14 bits to all */
#else
    return 1 / x;
#endif
}

static inline vec sigmoid(vec x) { return reciprocal(1 + vexp(-x)); }
static inline vec vtanh(vec x) { return 1 - 2 * reciprocal(1 + vexp(2 * x)); }

static inline real sigmoid_1(real x) { return sigmoid(x - (vec){0})[0]; }

static real dot(const real *x, const real *y, int64_t n) {
    vec s0 = {0}, s1 = {0};
    int64_t i = 0;
    for (; i + 2 * VL <= n; i += 2 * VL) {
        s0 += load(x + i) * load(y + i);
        s1 += load(x + i + VL) * load(y + i + VL);
    }
    for (; i < n; i += VL) s0 += load_n(x + i, n - i) * load_n(y + i, n - i);
    return sum(s0 + s1);
}

/* y[k] += row k of A . x */
static void add_rows_times(real *y, const real *A, const real *x, int64_t rows, int64_t n) {
    int64_t k = 0;
    for (; k + 4 <= rows; k += 4) {
        const real *row = A + k * n;
        vec s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0};
        for (int64_t i = 0; i < n; i += VL) {
            int64_t left = n - i;
            vec v = load_n(x + i, left);
            s0 += load_n(row + i, left) * v;
            s1 += load_n(row + n + i, left) * v;
            s2 += load_n(row + 2 * n + i, left) * v;
            s3 += load_n(row + 3 * n + i, left) * v;
        }
        real found[4];
        sum_4(s0, s1, s2, s3, found);
        for (int i = 0; i < 4; i++) y[k + i] += found[i];
    }
    for (; k < rows; k++) y[k] += dot(A + k * n, x, n);
}

/* y += scale x */
static void add_scaled(real *y, const real *x, real scale, int64_t n) {
    for (int64_t i = 0; i < n; i += VL)
        store_n(y + i, load_n(y + i, n - i) + scale * load_n(x + i, n - i), n - i);
}

static void copy(real *to, const real *from, int64_t n) {
    memcpy(to, from, sizeof(real) * (size_t)n);
}

static void zero(real *x, int64_t n) { memset(x, 0, sizeof(real) * (size_t)n); }

/* x goes to `to` and leaves zero; without `condition` x stays and `to` is zero. */
static void move_if(int condition, real *to, real *x, int64_t n) {
    if (condition) copy(to, x, n);
    zero(condition ? x : to, n);
}

/* ------------------------------------------------------------------ the matrix product

   C (+)= A B, where B was packed: its columns in panels of NV vectors, each panel row by row, so
   that the inner loop reads it in one stream. A block of MR x NV accumulators stays in registers. */

#define NV 3
#define PANEL (NV * VL)

typedef struct {
    int64_t depth, width; /* rows and columns of B */
    real *data;
} Packed;

static int64_t panels(const Packed *b) { return (b->width + PANEL - 1) / PANEL; }

static int64_t packed_size(int64_t depth, int64_t width) {
    return depth * ((width + VL - 1) / VL) * VL;
}

/* A matrix in memory: element [k][n] is at k * row + n * column. */
typedef struct {
    const real *from;
    int64_t row, column;
} Matrix;

/* Panels [first, last) of B, of which `right` is the part from column `seam` on. */
static void pack_wide(const Packed *b, Matrix left, Matrix right, int64_t seam, int64_t first,
                      int64_t last) {
    for (int64_t panel = first; panel < last; panel++) {
        int64_t n0 = panel * PANEL, n1 = n0 + PANEL < b->width ? n0 + PANEL : b->width;
        int64_t padded = (n1 - n0 + VL - 1) / VL * VL, n2 = seam < n0 ? n0 : seam < n1 ? seam : n1;
        real *to = b->data + n0 * b->depth;
        for (int64_t k = 0; k < b->depth; k++, to += padded) {
            for (int64_t n = n0; n < n2; n++) to[n - n0] = left.from[k * left.row + n * left.column];
            for (int64_t n = n2; n < n1; n++)
                to[n - n0] = right.from[k * right.row + (n - seam) * right.column];
            for (int64_t n = n1 - n0; n < padded; n++) to[n] = 0;
        }
    }
}

/* The same where `lower` is the part from row `seam` on. */
static void pack_deep(const Packed *b, Matrix upper, Matrix lower, int64_t seam, int64_t first,
                      int64_t last) {
    for (int64_t panel = first; panel < last; panel++) {
        int64_t n0 = panel * PANEL, here = b->width - n0 < PANEL ? b->width - n0 : PANEL;
        int64_t padded = (here + VL - 1) / VL * VL;
        real *to = b->data + n0 * b->depth;
        for (int64_t k = 0; k < b->depth; k++, to += padded) {
            Matrix m = k < seam ? upper : lower;
            const real *line = m.from + (k < seam ? k : k - seam) * m.row + n0 * m.column;
            for (int64_t n = 0; n < here; n++) to[n] = line[n * m.column];
            for (int64_t n = here; n < padded; n++) to[n] = 0;
        }
    }
}

static inline __attribute__((always_inline)) void block(
    const int rows, const int vectors, int64_t depth, const real *restrict A, int64_t lda,
    const real *restrict B, real *restrict C, int64_t ldc, int64_t width, int add) {
    vec acc[MR][NV];
    UNROLLED
    for (int i = 0; i < rows; i++) {
        UNROLLED
        for (int j = 0; j < vectors; j++) acc[i][j] = (vec){0};
    }
    for (int64_t k = 0; k < depth; k++, B += vectors * VL) {
        vec b[NV];
        UNROLLED
        for (int j = 0; j < vectors; j++) b[j] = load(B + j * VL);
        UNROLLED
        for (int i = 0; i < rows; i++) {
            real a = A[i * lda + k];
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

typedef void block_fn(int64_t depth, const real *A, int64_t lda, const real *B, real *C,
                      int64_t ldc, int64_t width, int add);

#define BLOCK(rows, vectors)                                                                    \
    static void CAT3(block, rows, vectors)(int64_t depth, const real *A, int64_t lda,           \
                                           const real *B, real *C, int64_t ldc, int64_t width,  \
                                           int add) {                                           \
        block(rows, vectors, depth, A, lda, B, C, ldc, width, add);                             \
    }
#define BLOCKS(rows) BLOCK(rows, 1) BLOCK(rows, 2) BLOCK(rows, 3)
#define NAMES(rows) { CAT3(block, rows, 1), CAT3(block, rows, 2), CAT3(block, rows, 3) }
BLOCKS(1) BLOCKS(2) BLOCKS(3) BLOCKS(4)
#if MR == 8
BLOCKS(5) BLOCKS(6) BLOCKS(7) BLOCKS(8)
#endif
static block_fn *const block_table[MR][NV] = {
    NAMES(1), NAMES(2), NAMES(3), NAMES(4),
#if MR == 8
    NAMES(5), NAMES(6), NAMES(7), NAMES(8),
#endif
};

static void product(int64_t rows, const real *A, int64_t lda, const Packed *b, real *C,
                    int64_t ldc, int add) {
    int64_t blocks = (rows + MR - 1) / MR; /* of nearly equal height */
    for (int64_t n0 = 0; n0 < b->width; n0 += PANEL) {
        int64_t width = b->width - n0 < PANEL ? b->width - n0 : PANEL;
        int64_t vectors = (width + VL - 1) / VL;
        const real *B = b->data + n0 * b->depth;
        for (int64_t i = 0, m0 = 0; i < blocks; i++) {
            int64_t m1 = (i + 1) * rows / blocks;
            block_table[m1 - m0 - 1][vectors - 1](b->depth, A + m0 * lda, lda, B, C + m0 * ldc + n0,
                                                  ldc, width, add);
            m0 = m1;
        }
    }
}
