/* One call: pack the weights, run the shares, and after the way back the weights' gradients. */

enum { MOST_JOBS = 20, MOST_PACKED = 6 };
enum { FEW_ROWS = 4 };    /* to multiply so few, packing takes longer than it saves */
enum { LEAST_PART = 16 }; /* samples: with fewer, too little is done with each piece of the weights */

typedef struct {
    const Problem *p;
    int backward;
    int64_t shares; /* of the batch, one for each thread */
    int64_t part;   /* the most samples of a share that go through all steps together */
    Weights weights;
    Packed *packed[MOST_PACKED];
    Job jobs[MOST_JOBS];
    int count, packed_count;
    Tape tape;
    Slopes slopes;
    Gradient gradients[MOST_GRADIENTS];
    char *arena;
    int64_t arena_bytes; /* a share */
    int64_t task_columns; /* the most that a task of a gradient has */
    atomic_int failed;
} Call;

static void add_packed(Call *call, Packed *packed, int64_t depth, int64_t width) {
    *packed = (Packed){.depth = depth, .width = width};
    call->packed[call->packed_count++] = packed;
}

/* W^T, W being rows x columns, from row k0 and column n0 of B on; without W zeros. */
static void add_transposed(Call *call, Packed *b, int64_t k0, int64_t n0, const real *W, int64_t rows,
                           int64_t columns) {
    call->jobs[call->count++] = (Job){b, k0, n0, columns, rows, W, 1, columns};
}

/* W itself, likewise. */
static void add_plain(Call *call, Packed *b, int64_t k0, int64_t n0, const real *W, int64_t rows,
                      int64_t columns) {
    call->jobs[call->count++] = (Job){b, k0, n0, rows, columns, W, columns, 1};
}

/* What the rows [h | x | 1 | r] are multiplied by. */
static void list_forward(Call *call) {
    const Problem *p = call->p;
    Weights *w = &call->weights;
    int64_t D = p->D, H = p->H, P = p->P, C = p->C, Q = p->A + C;
    add_packed(call, &w->gates, H + D + 1 + Q, early_width(p));
    add_packed(call, &w->candidate, H + D + 1 + Q, H);
    for (int i = EARLY; i <= CANDIDATE; i++) {
        Range range = range_of(p, i);
        Packed *to = i == CANDIDATE ? &w->candidate : &w->gates;
        int64_t g = range.first, n0 = range.at, width = range.count;
        const real *b = p->norm && i != RESET ? NULL : p->b_G + g; /* or after the normalisation */
        add_transposed(call, to, 0, n0, p->W_h_GH + g * H, width, H);
        add_transposed(call, to, H, n0, p->W_x_GD + g * D, width, D);
        add_transposed(call, to, H + D, n0, b, width, 1);
        add_transposed(call, to, H + D + 1, n0, Q ? p->W_r_GQ + g * Q : NULL, width, Q);
    }
    if (!p->K) return;
    add_packed(call, &w->attention, H + D + 1, P);
    add_transposed(call, &w->attention, 0, 0, p->read_W_h_PH, P, H);
    add_transposed(call, &w->attention, H, 0, p->read_W_x_PD, P, D);
    add_transposed(call, &w->attention, H + D, 0, p->read_b_P, P, 1);
    add_packed(call, &w->micro, H, C);
    add_transposed(call, &w->micro, 0, 0, p->W_m_CH, C, H);
    add_packed(call, &w->row, C, P);
    add_transposed(call, &w->row, 0, 0, p->read_W_c_PC, P, C);
}

/* What gives the rows [dr | dh | dx]. */
static void list_backward(Call *call) {
    const Problem *p = call->p;
    Weights *w = &call->weights;
    int64_t H = p->H, P = p->P, C = p->C, Q = p->A + C, D = p->dx_TBD ? p->D : 0;
    add_packed(call, &w->gates_back, early_width(p), Q + H + D);
    add_packed(call, &w->candidate_back, H, Q + H + D);
    for (int i = EARLY; i <= CANDIDATE; i++) {
        Range range = range_of(p, i);
        Packed *to = i == CANDIDATE ? &w->candidate_back : &w->gates_back;
        int64_t g = range.first, k0 = range.at, depth = range.count;
        add_plain(call, to, k0, 0, Q ? p->W_r_GQ + g * Q : NULL, depth, Q);
        add_plain(call, to, k0, Q, p->W_h_GH + g * H, depth, H);
        add_plain(call, to, k0, Q + H, D ? p->W_x_GD + g * D : NULL, depth, D);
    }
    if (!p->K) return;
    add_packed(call, &w->attention_back, P, H + D);
    add_plain(call, &w->attention_back, 0, 0, p->read_W_h_PH, P, H);
    add_plain(call, &w->attention_back, 0, H, D ? p->read_W_x_PD : NULL, P, D);
    add_packed(call, &w->micro_back, C, H);
    add_plain(call, &w->micro_back, 0, 0, p->W_m_CH, C, H);
    add_packed(call, &w->row_back, P, C);
    add_plain(call, &w->row_back, 0, 0, p->read_W_c_PC, P, C);
    add_packed(call, &w->row, C, P);
    add_transposed(call, &w->row, 0, 0, p->read_W_c_PC, P, C);
}

static void pack_share(void *data, int64_t share) {
    Call *call = data;
    for (int i = 0; i < call->packed_count; i++) {
        int64_t n = panels(call->packed[i]->width);
        clear_end(call->packed[i], share * n / call->shares, (share + 1) * n / call->shares);
    }
    for (int i = 0; i < call->count; i++) {
        Job *job = &call->jobs[i];
        int64_t n = panels(job->packed->width);
        pack(job, share * n / call->shares, (share + 1) * n / call->shares);
    }
}

/* The most samples of a share that go through all steps together: so many that the rows of their cells
   take no more of the caches than the weights, or all. */
static int64_t part_of(const Problem *p, int64_t share, int64_t weights) {
    int64_t cells = 2 * p->K * p->P, part = cells ? weights / cells : share;
    if (part < LEAST_PART) part = LEAST_PART;
    return part < share ? part : share;
}

static void run_share(void *data, int64_t share) {
    Call *call = data;
    const Problem *p = call->p;
    int64_t first = share * p->B / call->shares, M = (share + 1) * p->B / call->shares - first;
    char *start = call->arena + share * call->arena_bytes;
    Arena sums = {start, 0};
    if (call->backward) take_sums(&sums, p);
    memset(start, 0, (size_t)sums.used);
    int64_t parts = (M + call->part - 1) / call->part;
    for (int64_t i = 0; i < parts; i++) { /* of nearly equal size */
        int64_t b0 = first + i * M / parts, b1 = first + (i + 1) * M / parts;
        Arena arena = {start, 0};
        if (call->backward)
            backward_part(p, &call->weights, &call->tape, &call->slopes, &arena, b0, b1 - b0);
        else forward_part(p, &call->weights, &call->tape, &arena, b0, b1 - b0);
    }
}

static int64_t tasks_of(const Call *call, const Gradient *job) {
    return job->add ? 0 : (job->columns + call->task_columns - 1) / call->task_columns;
}

static void run_gradient(void *data, int64_t task) {
    Call *call = data;
    const Gradient *job = call->gradients;
    for (; task >= tasks_of(call, job); job++) task -= tasks_of(call, job);
    int64_t tasks = tasks_of(call, job), strips = (job->columns + STRIP - 1) / STRIP;
    int64_t g0 = task * strips / tasks * STRIP, g1 = (task + 1) * strips / tasks * STRIP;
    if (g1 > job->columns) g1 = job->columns;
    do { /* the list ends with an empty one */
        if (gradient_task(job++, g0, g1)) call->failed = 1;
    } while (job->add);
}

/* Run forward or backward; returns 0, or 1 if there is not enough memory. */
int VARIANT(const void *problem, int backward) {
    const Problem *p = problem;
    int64_t shares = p->threads < p->B ? p->threads : p->B, numbers = 0;
    Call call = {.p = p, .backward = backward, .shares = shares > 1 ? shares : 1};
    int64_t most = (p->B + call.shares - 1) / call.shares;
    if (backward) list_backward(&call);
    else list_forward(&call);
    int packing = backward || p->T * most > FEW_ROWS;
    for (int i = 0; i < call.packed_count && packing; i++)
        numbers += packed_size(call.packed[i]->depth, call.packed[i]->width);
    Arena measure = {NULL, 0}, slopes = {NULL, 0}, tape = {(char *)p->tape, 0};
    call.part = packing ? part_of(p, most, numbers) : most;
    if (backward) take_backward(&measure, p, 0, call.part);
    else take_forward(&measure, p, call.part);
    if (backward) take_slopes(&slopes, p);
    call.arena_bytes = measure.used;
    call.tape = take_tape(&tape, p);

    char *packed = malloc(sizeof(real) * (size_t)numbers + 64);
    char *arena = malloc((size_t)(call.arena_bytes * call.shares) + 64);
    char *more = malloc((size_t)slopes.used + 64);
    if (packed && arena && more) {
        real *next = (real *)align_64(packed);
        for (int i = 0; i < call.packed_count; i++) {
            call.packed[i]->data = packing ? next : NULL;
            call.packed[i]->jobs = call.jobs;
            call.packed[i]->count = call.count;
            if (packing) next += packed_size(call.packed[i]->depth, call.packed[i]->width);
        }
        call.arena = align_64(arena);
        slopes = (Arena){align_64(more), 0};
        if (backward) call.slopes = take_slopes(&slopes, p);
        if (packing) in_parallel(p->parallel, p->threads, pack_share, &call, call.shares);
        in_parallel(p->parallel, p->threads, run_share, &call, call.shares);
    } else {
        call.failed = 1;
    }
    if (backward && !call.failed) {
        int64_t tasks = 0, columns = 0;
        int count = list_gradients(p, &call.tape, &call.slopes, call.gradients);
        for (int i = 0; i < count; i++) columns += call.gradients[i].columns;
        call.task_columns = columns / p->threads < GRADIENT_COLUMNS ? columns / p->threads : GRADIENT_COLUMNS;
        if (call.task_columns < LEAST_COLUMNS) call.task_columns = LEAST_COLUMNS;
        for (int i = 0; i < count; i++) tasks += tasks_of(&call, &call.gradients[i]);
        in_parallel(p->parallel, p->threads, run_gradient, &call, tasks);
        add_up(p, call.arena, call.arena_bytes, call.shares);
    }
    free(packed);
    free(arena);
    free(more);
    return call.failed;
}
