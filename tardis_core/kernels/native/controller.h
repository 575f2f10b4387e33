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

/* Layer normalisation of one gate in place; returns one over its standard deviation. */
static real normalise(real *z, int64_t H) {
    vec s = {0}, s2 = {0};
    for (int64_t j = 0; j < H; j += VL) s += load_n(z + j, H - j);
    real mean = sum(s) / (real)H;
    for (int64_t j = 0; j < H; j += VL) {
        store_n(z + j, load_n(z + j, H - j) - mean, H - j);
        vec x = load_n(z + j, H - j); /* zero beyond H */
        s2 += x * x;
    }
    real scale = 1 / square_root(sum(s2) / (real)H + NORM_EPSILON);
    for (int64_t j = 0; j < H; j += VL) store_n(z + j, scale * load_n(z + j, H - j), H - j);
    return scale;
}

/* The gradient of a normalised vector becomes that of the vector itself. */
static void normalise_backward(real *d, const real *normal, real scale, int64_t H) {
    vec s = {0}, s2 = {0};
    for (int64_t j = 0; j < H; j += VL) {
        vec dj = load_n(d + j, H - j);
        s += dj;
        s2 += dj * load_n(normal + j, H - j);
    }
    real mean = sum(s) / (real)H, along = sum(s2) / (real)H;
    for (int64_t j = 0; j < H; j += VL) {
        vec dj = load_n(d + j, H - j) - mean - along * load_n(normal + j, H - j);
        store_n(d + j, scale * dj, H - j);
    }
}

/* Where a row of gates holds f, i, o and g: g is the first. */
static int64_t place(const Problem *p, int64_t which) { return which == 3 ? 0 : (which + 1) * p->H; }

/* f, i, o or g from a row of gates: once `made`, it holds their values, but normalised ones as they
   are before gain and bias. */
static inline vec gate(const Problem *p, const real *z, int64_t which, int64_t j, int made) {
    int64_t at = which * p->H + j, n = p->H - j;
    vec x = load_n(z + place(p, which) + j, n);
    if (p->norm) x = x * load_n(p->gain_4H + at, n) + load_n(p->b_G + at, n);
    else if (made) return x;
    return which == 3 ? vtanh(x) : sigmoid(x);
}

static void cell_forward(const Problem *p, real *z, const real *dropout, const real *c, real *new_c,
                         real *new_h, real *norm_scale) {
    int64_t H = p->H;
    for (int64_t i = 0; i < 4 && p->norm; i++) {
        real scale = normalise(z + place(p, i), H);
        if (norm_scale) norm_scale[i] = scale;
    }
    for (int64_t j = 0; j < H; j += VL) {
        int64_t n = H - j;
        vec f = gate(p, z, 0, j, 0), i = gate(p, z, 1, j, 0), o = gate(p, z, 2, j, 0);
        vec g = gate(p, z, 3, j, 0);
        if (p->keep && !p->norm) {
            store_n(z + H + j, f, n);
            store_n(z + 2 * H + j, i, n);
            store_n(z + 3 * H + j, o, n);
            store_n(z + j, g, n);
        }
        if (dropout) g *= load_n(dropout + j, n);
        vec next = f * load_n(c + j, n) + i * g;
        store_n(new_c + j, next, n);
        store_n(new_h + j, o * vtanh(next), n);
    }
}

/* From dh and dc of the new state to dz, which replaces z, and to dc of the state before. */
static void cell_backward(const Problem *p, real *z, const real *dropout, const real *c,
                          const real *dh, real *dc, const real *norm_scale, real *dgain,
                          real *dbias, real *scratch) {
    int64_t H = p->H;
    real *dz = p->norm ? scratch : z;
    for (int64_t j = 0; j < H; j += VL) {
        int64_t n = H - j;
        vec f = gate(p, z, 0, j, 1), i = gate(p, z, 1, j, 1), o = gate(p, z, 2, j, 1);
        vec g = gate(p, z, 3, j, 1), before = load_n(c + j, n);
        vec kept = dropout ? load_n(dropout + j, n) : 1 - (vec){0};
        vec squashed = vtanh(f * before + i * (g * kept));
        vec up = load_n(dh + j, n);
        vec down = load_n(dc + j, n) + up * o * (1 - squashed * squashed);
        store_n(dz + H + j, down * before * f * (1 - f), n);
        store_n(dz + 2 * H + j, down * g * kept * i * (1 - i), n);
        store_n(dz + 3 * H + j, up * squashed * o * (1 - o), n);
        store_n(dz + j, down * i * kept * (1 - g * g), n);
        store_n(dc + j, down * f, n);
    }
    for (int64_t i = 0; i < 4 && p->norm; i++) {
        real *d = dz + place(p, i), *normal = z + place(p, i);
        for (int64_t j = 0; j < H; j += VL) {
            int64_t n = H - j, at = i * H + j;
            vec x = load_n(d + j, n);
            store_n(dbias + at, load_n(dbias + at, n) + x, n);
            store_n(dgain + at, load_n(dgain + at, n) + x * load_n(normal + j, n), n);
            store_n(d + j, x * load_n(p->gain_4H + at, n), n);
        }
        normalise_backward(d, normal, norm_scale[i], H);
        copy(normal, d, H);
    }
}
