/* How work is laid out in one piece of memory, and what forward leaves there for backward. */

typedef struct {
    char *start; /* NULL while only the size is asked for */
    int64_t used;
} Arena;

static void *take(Arena *arena, int64_t bytes) {
    void *here = arena->start ? arena->start + arena->used : NULL;
    arena->used += (bytes + 63) / 64 * 64;
    return here;
}
#define TAKE(arena, type, count) ((type *)take(arena, (int64_t)sizeof(type) * (count)))

static inline void *take_zeros(Arena *arena, int64_t bytes) {
    void *here = take(arena, bytes);
    if (here) memset(here, 0, (size_t)bytes);
    return here;
}
#define TAKE_ZEROS(arena, type, count) \
    ((type *)take_zeros(arena, (int64_t)sizeof(type) * (count)))

/* Rows of gates: g, then f, i, o and the logits of alpha and beta, which are one product. Their length
   is never a power of two, at which all rows would compete for the same lines of the cache. */
static int64_t gate_stride(const Problem *p) { return (4 * p->H + 2 + 15) / 16 * 16; }

typedef struct {
    real *gates;       /* [T][B][gate_stride]: g, f, i, o (normalised: before gain and bias) */
    real *common;      /* [T][B][P]: the read logits' part that all cells share */
    real *c;           /* [T + 1][B][H]: before each step, and after the last */
    real *micro;       /* [T][B][C]: W_m h */
    real *tau;         /* [T][B]: w . h + b */
    real *usage_scale; /* [T][B]: one over the deviation of the reads */
    real *norm_scale;  /* [T][B][4]: one over the deviation of g, f, i, o */
    int32_t *before;   /* [T][B]: the step that had written the cell before, -1: none of this call */
} Tape;

static Tape take_tape(Arena *arena, const Problem *p) {
    int64_t N = p->T * p->B;
    Tape tape;
    tape.gates = TAKE(arena, real, N * gate_stride(p));
    tape.common = TAKE(arena, real, N * p->P);
    tape.c = TAKE(arena, real, (N + p->B) * p->H);
    tape.micro = TAKE(arena, real, N * p->C);
    tape.tau = TAKE(arena, real, p->soft ? N : 0);
    tape.usage_scale = TAKE(arena, real, p->K ? N : 0);
    tape.norm_scale = TAKE(arena, real, p->norm ? 4 * N : 0);
    tape.before = TAKE(arena, int32_t, p->K ? N : 0);
    return tape;
}
