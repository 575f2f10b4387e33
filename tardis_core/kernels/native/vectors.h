/* Vectors of the machine and elementary functions on them.
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
    ivec first; /* of each quarter */
    UNROLLED
    for (int64_t i = 0; i < VL; i++) first[i] = (bits)(i % 4 * (VL / 4));
    all = __builtin_shuffle(all, first);
    memcpy(to, &all, 4 * sizeof(real)); /* not by a mask: what follows reads it sooner */
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

/* exp(x) for |x| <= EXP_LIMIT (beyond it, that of the limit): 2^n exp(rest), |rest| <= ln 2 / 2.
   Every step needs the one before it, so a vector alone would mostly wait: each step is done for all
   vectors before the next one is. There are at most AT_ONCE, as many as the registers hold. */
static inline ALWAYS_INLINE void exp_each(vec *x, const int count) {
    vec power[AT_ONCE], rest[AT_ONCE];
    UNROLLED
    for (int v = 0; v < count; v++) {
        x[v] = clamp(x[v], EXP_LIMIT);
        vec shifted = x[v] * (real)1.4426950408889634 + ROUNDER; /* n in the lowest bits */
        vec n = shifted - ROUNDER;
        rest[v] = (x[v] - n * LN2_HIGH) - n * LN2_LOW;
        power[v] = (vec)(((ivec)shifted << MANTISSA_BITS) + (ivec)((real)1 - (vec){0}));
        x[v] = (real)INVERSE_FACTORIAL[EXP_TERMS] - (vec){0};
    }
    UNROLLED
    for (int i = EXP_TERMS - 1; i >= 0; i--) {
        UNROLLED
        for (int v = 0; v < count; v++) x[v] = x[v] * rest[v] + (real)INVERSE_FACTORIAL[i];
    }
    UNROLLED
    for (int v = 0; v < count; v++) x[v] *= power[v];
}

static inline vec vexp(vec x) {
    exp_each(&x, 1);
    return x;
}

/* 1 / x for x in [1, exp(EXP_LIMIT) + 1]. */
static inline vec reciprocal(vec x) {
#ifdef ROUGH_RECIPROCAL
    /* One step of third order: from 12 or 14 bits to all. With one of Newton a gate that is shut or
       open would, on processors whose guess for 1 / 1 is not 1, miss 0 or 1 by a rounding, and what is
       saturated would pass a gradient. */
    vec y = (vec)ROUGH_RECIPROCAL(x), error = 1 - x * y;
    return y + y * (error + error * error);
#else
    return 1 / x;
#endif
}

static inline real sigmoid_1(real x) { return reciprocal(1 + vexp(-x - (vec){0}))[0]; }

/* tanh(x) from exp(2 x). */
static inline vec tanh_from(vec squared) { return 1 - 2 * reciprocal(1 + squared); }

/* log(1 + exp(x)), with torch's rule for large x. log(1 + y) = 2 atanh(y / (2 + y)), and y <= 1. */
static inline real softplus_1(real x) {
    if (!(x <= 20)) return x;
    real y = vexp((x > 0 ? -x : x) - (vec){0})[0], s = y / (2 + y), square = s * s, series = 0;
    UNROLLED
    for (int n = LOG_TERMS; n >= 0; n--) series = series * square + (real)1 / (real)(2 * n + 1);
    return (x > 0 ? x : 0) + 2 * s * series;
}

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
        vec s[4] = {{0}, {0}, {0}, {0}};
        int64_t i = 0;
        for (; i + VL <= n; i += VL) {
            vec v = load(x + i);
            UNROLLED
            for (int j = 0; j < 4; j++) s[j] += load(row + j * n + i) * v;
        }
        if (i < n) {
            vec v = load_n(x + i, n - i);
            UNROLLED
            for (int j = 0; j < 4; j++) s[j] += load_n(row + j * n + i, n - i) * v;
        }
        real found[4];
        sum_4(s[0], s[1], s[2], s[3], found);
        for (int j = 0; j < 4; j++) y[k + j] += found[j];
    }
    for (; k < rows; k++) y[k] += dot(A + k * n, x, n);
}

/* y += scale x */
static inline void add_scaled(real *y, const real *x, real scale, int64_t n) {
    for (int64_t i = 0; i < n; i += VL)
        store_n(y + i, load_n(y + i, n - i) + scale * load_n(x + i, n - i), n - i);
}

/* y = scale x */
static inline void scale_into(real *y, const real *x, real scale, int64_t n) {
    for (int64_t i = 0; i < n; i += VL) store_n(y + i, scale * load_n(x + i, n - i), n - i);
}

/* Rows are short: a call of memcpy would take longer. */
static inline void copy(real *to, const real *from, int64_t n) {
    for (int64_t i = 0; i < n; i += VL) store_n(to + i, load_n(from + i, n - i), n - i);
}

static void zero(real *x, int64_t n) { memset(x, 0, sizeof(real) * (size_t)n); }

/* x goes to `to` and leaves zero; without `condition` x stays and `to` is zero. */
static void move_if(int condition, real *to, real *x, int64_t n) {
    if (condition) copy(to, x, n);
    zero(condition ? x : to, n);
}
