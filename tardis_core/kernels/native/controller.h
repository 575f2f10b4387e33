/* The controller, Eqs. (7) to (10), from the pre-activations of one sample on. */

static const real NORM_EPSILON = (real)1e-5;

static int64_t early_width(const Problem *p) { return 3 * p->H + (p->reset ? 2 : 0); }

/* The rows of a weight of the gates: f, i, o; alpha, beta; g. */
typedef struct {
    int64_t first, count;
    int64_t at; /* where they stand in their product */
} Range;
enum { EARLY, RESET, CANDIDATE };
static Range range_of(const Problem *p, int which) {
    if (which == EARLY) return (Range){0, 3 * p->H, 0};
    if (which == RESET) return (Range){4 * p->H, p->reset ? 2 : 0, 3 * p->H};
    return (Range){3 * p->H, p->H, 0};
}

/* Where a row of gates holds f, i, o and g: g is the first. */
static int64_t place(const Problem *p, int64_t which) { return which == 3 ? 0 : (which + 1) * p->H; }

/* The same the other way: which of f, i, o and g stands n-th in a row. */
static int64_t nth(int64_t n) { return (n + 3) % 4; }

/* Layer normalisation of the four gates of a row, in place; `scale` gets one over each one's standard
   deviation, in the order of the row. All four at once: the sum of a vector takes long to wait for. */
static void normalise(real *z, int64_t H, real *scale) {
    vec s[4] = {{0}, {0}, {0}, {0}}, s2[4] = {{0}, {0}, {0}, {0}};
    real sums[4], mean[4];
    for (int64_t j = 0; j < H; j += VL) {
        UNROLLED
        for (int64_t n = 0; n < 4; n++) s[n] += load_n(z + n * H + j, H - j);
    }
    sum_4(s[0], s[1], s[2], s[3], sums);
    for (int64_t n = 0; n < 4; n++) mean[n] = sums[n] / (real)H;
    for (int64_t j = 0; j < H; j += VL) {
        UNROLLED
        for (int64_t n = 0; n < 4; n++) {
            real *at = z + n * H + j;
            store_n(at, load_n(at, H - j) - mean[n], H - j);
            vec x = load_n(at, H - j); /* zero beyond H */
            s2[n] += x * x;
        }
    }
    sum_4(s2[0], s2[1], s2[2], s2[3], sums);
    for (int64_t n = 0; n < 4; n++) scale[n] = 1 / square_root(sums[n] / (real)H + NORM_EPSILON);
    for (int64_t j = 0; j < H; j += VL) {
        UNROLLED
        for (int64_t n = 0; n < 4; n++) {
            real *at = z + n * H + j;
            store_n(at, scale[n] * load_n(at, H - j), H - j);
        }
    }
}

/* From the gradients of the four gates after gain and bias, `dz`, to those before the normalisation,
   which replace the normalised row; those of gain and bias are added to. */
static void normalise_backward(const Problem *p, real *normal, real *dz, const real *scale,
                               real *dgain, real *dbias) {
    int64_t H = p->H;
    vec s[4] = {{0}, {0}, {0}, {0}}, s2[4] = {{0}, {0}, {0}, {0}};
    for (int64_t j = 0; j < H; j += VL) {
        UNROLLED
        for (int64_t n = 0; n < 4; n++) {
            int64_t left = H - j, at = nth(n) * H + j, here = n * H + j;
            vec d = load_n(dz + here, left), x = load_n(normal + here, left);
            store_n(dbias + at, load_n(dbias + at, left) + d, left);
            store_n(dgain + at, load_n(dgain + at, left) + d * x, left);
            d *= load_n(p->gain_4H + at, left);
            store_n(dz + here, d, left);
            s[n] += d;
            s2[n] += d * x;
        }
    }
    real mean[4], along[4];
    sum_4(s[0], s[1], s[2], s[3], mean);
    sum_4(s2[0], s2[1], s2[2], s2[3], along);
    for (int64_t n = 0; n < 4; n++) mean[n] /= (real)H, along[n] /= (real)H;
    for (int64_t j = 0; j < H; j += VL) {
        UNROLLED
        for (int64_t n = 0; n < 4; n++) {
            int64_t left = H - j, here = n * H + j;
            vec d = load_n(dz + here, left) - mean[n] - along[n] * load_n(normal + here, left);
            store_n(normal + here, scale[n] * d, left);
        }
    }
}

enum { EACH = AT_ONCE / 4 }; /* vectors of each gate that are taken at a time */

typedef struct {
    vec f[EACH], i[EACH], o[EACH], g[EACH];
} Gates;

/* Some vectors of the gates from a row of them, from j on. Once `made`, it holds their values, but
   normalised ones as they are before gain and bias. */
static inline ALWAYS_INLINE Gates gates_at(const int vectors, const Problem *p, const real *z,
                                           int64_t j, int made) {
    vec x[4 * EACH];
    UNROLLED
    for (int which = 0; which < 4; which++) {
        UNROLLED
        for (int v = 0; v < vectors; v++) {
            int64_t here = j + v * VL, at = which * p->H + here, n = p->H - here;
            vec y = load_n(z + place(p, which) + here, n);
            if (p->norm) y = y * load_n(p->gain_4H + at, n) + load_n(p->b_G + at, n);
            x[which * vectors + v] = y;
        }
    }
    if (p->norm || !made) {
        UNROLLED
        for (int v = 0; v < 4 * vectors; v++) x[v] *= (real)(v < 3 * vectors ? -1 : 2);
        exp_each(x, 4 * vectors);
        UNROLLED
        for (int v = 0; v < 4 * vectors; v++)
            x[v] = v < 3 * vectors ? reciprocal(1 + x[v]) : tanh_from(x[v]);
    }
    Gates found;
    UNROLLED
    for (int v = 0; v < vectors; v++) {
        found.f[v] = x[v], found.i[v] = x[vectors + v];
        found.o[v] = x[2 * vectors + v], found.g[v] = x[3 * vectors + v];
    }
    return found;
}

/* Some vectors of the new state, from j on. */
static inline ALWAYS_INLINE void cell_at(const int vectors, const Problem *p, int64_t j, real *z,
                                         const real *dropout, const real *c, real *new_c,
                                         real *new_h) {
    int64_t H = p->H;
    Gates gates = gates_at(vectors, p, z, j, 0);
    vec doubled[EACH];
    UNROLLED
    for (int v = 0; v < vectors; v++) {
        int64_t at = j + v * VL, n = H - at;
        if (p->keep && !p->norm) {
            store_n(z + H + at, gates.f[v], n);
            store_n(z + 2 * H + at, gates.i[v], n);
            store_n(z + 3 * H + at, gates.o[v], n);
            store_n(z + at, gates.g[v], n);
        }
        vec g = dropout ? gates.g[v] * load_n(dropout + at, n) : gates.g[v];
        vec next = gates.f[v] * load_n(c + at, n) + gates.i[v] * g;
        store_n(new_c + at, next, n);
        doubled[v] = 2 * next;
    }
    exp_each(doubled, vectors);
    UNROLLED
    for (int v = 0; v < vectors; v++)
        store_n(new_h + j + v * VL, gates.o[v] * tanh_from(doubled[v]), H - j - v * VL);
}

static void cell_forward(const Problem *p, real *z, const real *dropout, const real *c, real *new_c,
                         real *new_h, real *norm_scale) {
    int64_t H = p->H, j = 0;
    real unused[4];
    if (p->norm) normalise(z, H, norm_scale ? norm_scale : unused);
    for (; j + VL < H; j += EACH * VL) cell_at(EACH, p, j, z, dropout, c, new_c, new_h);
    if (j < H) cell_at(1, p, j, z, dropout, c, new_c, new_h);
}

/* Some vectors of dz and of dc, from j on. */
static inline ALWAYS_INLINE void cell_back_at(const int vectors, const Problem *p, int64_t j,
                                              const real *z, const real *dropout, const real *c,
                                              const real *dh, real *dc, real *dz) {
    int64_t H = p->H;
    Gates gates = gates_at(vectors, p, z, j, 1);
    vec before[EACH], kept[EACH], doubled[EACH];
    UNROLLED
    for (int v = 0; v < vectors; v++) {
        int64_t at = j + v * VL, n = H - at;
        before[v] = load_n(c + at, n);
        kept[v] = dropout ? load_n(dropout + at, n) : 1 - (vec){0};
        doubled[v] = 2 * (gates.f[v] * before[v] + gates.i[v] * (gates.g[v] * kept[v]));
    }
    exp_each(doubled, vectors);
    UNROLLED
    for (int v = 0; v < vectors; v++) {
        int64_t at = j + v * VL, n = H - at;
        vec f = gates.f[v], i = gates.i[v], o = gates.o[v], g = gates.g[v];
        vec squashed = tanh_from(doubled[v]), up = load_n(dh + at, n);
        vec down = load_n(dc + at, n) + up * o * (1 - squashed * squashed);
        store_n(dz + H + at, down * before[v] * f * (1 - f), n);
        store_n(dz + 2 * H + at, down * g * kept[v] * i * (1 - i), n);
        store_n(dz + 3 * H + at, up * squashed * o * (1 - o), n);
        store_n(dz + at, down * i * kept[v] * (1 - g * g), n);
        store_n(dc + at, down * f, n);
    }
}

/* From dh and dc of the new state to dz, which replaces z, and to dc of the state before. */
static void cell_backward(const Problem *p, real *z, const real *dropout, const real *c,
                          const real *dh, real *dc, const real *norm_scale, real *dgain,
                          real *dbias, real *scratch) {
    int64_t H = p->H, j = 0;
    real *dz = p->norm ? scratch : z;
    for (; j + VL < H; j += EACH * VL) cell_back_at(EACH, p, j, z, dropout, c, dh, dc, dz);
    if (j < H) cell_back_at(1, p, j, z, dropout, c, dh, dc, dz);
    if (p->norm) normalise_backward(p, z, dz, norm_scale, dgain, dbias);
}
