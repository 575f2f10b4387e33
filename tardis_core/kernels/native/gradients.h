/* The gradients of the weights, each one product over all T x B steps: dW = dz^T [what it was
 * multiplied by]. The columns of dz are split into tasks; each goes through the rows in pieces that
 * fit the cache. */

typedef struct { /* some columns of what the weights were multiplied by */
    const real *data; /* [row][stride]; NULL is a column of ones */
    int64_t stride, width;
    const real *scale; /* a factor a row, each 2 apart (alpha or beta), or NULL */
    real *to;          /* where the gradient goes, [column of dz][width], or NULL */
} Part;

typedef struct {
    int64_t rows, columns; /* of dz */
    const real *dz;
    int64_t stride;
    Part parts[4];
    int count;
    int64_t gap_at, gap; /* the columns from `gap_at` on belong to rows `gap` further down */
    int add; /* to what the one before it in the list has made: the same task does both */
} Gradient;

/* Each task packs the rows for itself: the fewer the better, as long as there is one for each thread. */
enum { LEAST_COLUMNS = 64, MOST_GRADIENTS = 7 };

/* Row `first + k` of a part, from column n on; beyond the depth of B, and a column of ones. */
static Line line_of(const Packed *b, const Part *part, int64_t first, int64_t k, int64_t n) {
    static const real one = 1;
    if (k >= b->depth) return (Line){NULL, 0};
    if (!part->data) return (Line){&one, 1};
    return (Line){part->data + (first + k) * part->stride + n,
                  part->scale ? part->scale[2 * (first + k)] : 1};
}

/* Rows [first, first + depth) of a part into B, from column n0 on. */
static void pack_part(const Packed *b, const Part *part, int64_t n0, int64_t first) {
    for (int64_t n = 0, stop; n < part->width; n = stop) { /* as far as the panel goes */
        int64_t end = ((n0 + n) / PANEL + 1) * PANEL - n0;
        stop = end < part->width ? end : part->width;
        for (int64_t k = 0; k < padded_depth(b->depth); k += LINES) {
            Line lines[LINES];
            for (int64_t i = 0; i < LINES; i++) lines[i] = line_of(b, part, first, k + i, n);
            put_lines(b, k, n0 + n, lines, stop - n);
        }
    }
}

/* Columns [g0, g1) of one gradient; returns 1 if there is not enough memory. */
static int gradient_task(const Gradient *job, int64_t g0, int64_t g1) {
    int64_t width = 0;
    for (int i = 0; i < job->count; i++) width += job->parts[i].width;
    int64_t depth = GRADIENT_DEPTH, columns = g1 - g0;
    int64_t packed = packed_size(depth, width), room = transposed_size(depth, columns);
    char *memory = malloc((size_t)(packed + room + columns * width) * sizeof(real) + 64);
    if (!memory) return 1;
    real *start = (real *)align_64(memory), *made = start + packed + room;
    for (int64_t n0 = 0; n0 < job->rows; n0 += depth) {
        int64_t here = job->rows - n0 < depth ? job->rows - n0 : depth, at = 0;
        Packed b = {.depth = here, .width = width, .data = start};
        for (int i = 0; i < job->count; i++) {
            pack_part(&b, &job->parts[i], at, n0);
            at += job->parts[i].width;
        }
        product_transposed(columns, job->dz + n0 * job->stride + g0, job->stride, &b, made, width,
                           n0 > 0, start + packed);
    }
    for (int64_t g = g0, at = 0; g < g1; g++)
        for (int i = 0; i < job->count; i++) {
            const Part *part = &job->parts[i];
            int64_t row = g < job->gap_at ? g : g + job->gap;
            real *to = part->to ? part->to + row * part->width : NULL;
            if (to && job->add) add_scaled(to, made + at, 1, part->width);
            else if (to) copy(to, made + at, part->width);
            at += part->width;
        }
    free(memory);
    return 0;
}

/* All of them; returns how many. */
static int list_gradients(const Problem *p, const Tape *tape, const Slopes *slopes, Gradient *jobs) {
    int64_t N = p->T * p->B, D = p->D, H = p->H, Q = p->A + p->C, G = gate_stride(p);
    const real *new_h = p->h_out_TBH ? p->h_out_TBH : p->h_TBH + p->B * H, *r = p->r_TBQ;
    const real *alpha = p->reset ? p->reset_TB2 : NULL, *beta = p->reset ? p->reset_TB2 + 1 : NULL;
    int count = 0;
    /* f, i, o, alpha, beta, and the candidate, which saw beta h and alpha r. What is normalised gets
       the gradient of its bias elsewhere: it replaces this one (add_up). */
    for (int i = 0; i < 2; i++) {
        int64_t g = i ? 3 * H : 0;
        jobs[count++] = (Gradient){
            N, i ? H : early_width(p), tape->gates + (i ? 0 : H), G,
            {{p->h_TBH, H, H, i ? beta : NULL, p->dW_h_GH + g * H},
             {p->x_TBD, D, D, NULL, p->dW_x_GD + g * D},
             {NULL, 0, 1, NULL, p->db_G + g},
             {r, Q, Q, i ? alpha : NULL, Q ? p->dW_r_GQ + g * Q : NULL}},
            .count = Q ? 4 : 3, .gap_at = 3 * H, .gap = H};
    }
    if (!p->K) return count;
    jobs[count++] = (Gradient){
        N, p->C, slopes->micro, p->C, {{new_h, H, H, NULL, p->dW_m_CH}}, .count = 1};
    if (!addressed(p)) return count;
    jobs[count++] = (Gradient){N, p->P, tape->common, p->P,
                               {{p->h_TBH, H, H, NULL, p->dread_W_h_PH},
                                {p->x_TBD, D, D, NULL, p->dread_W_x_PD},
                                {NULL, 0, 1, NULL, p->dread_b_P}},
                               .count = 3};
    jobs[count++] = (Gradient){N, p->P, slopes->row, p->P,
                               {{tape->micro, p->C, p->C, NULL, p->dread_W_c_PC}}, .count = 1};
    if (p->content0_BKC)
        jobs[count++] = (Gradient){p->B * p->K, p->P, slopes->row0, p->P,
                                   {{p->content0_BKC, p->C, p->C, NULL, p->dread_W_c_PC}},
                                   .count = 1, .add = 1};
    return count;
}
