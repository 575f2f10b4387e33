/* The one matrix product: C (+)= A B, where B was packed. How B is packed and multiplied depends on
 * whether the factors are rounded: product_real.h, product_bf16.h. */

typedef struct Job Job;

typedef struct {
    int64_t depth, width; /* rows and columns of B */
    real *data;           /* NULL: it is not packed, because too little would be done with it */
    const Job *jobs;      /* what it is made of, among others' */
    int count;
} Packed;

struct Job { /* a matrix that is a part of B, from row k0 and column n0 on */
    Packed *packed;
    int64_t k0, n0, depth, width;
    const real *from; /* its element [k][n] is from[k * row + n * column]; NULL is zero */
    int64_t row, column;
};

typedef struct { /* a part of a row of B, and a factor for it */
    const real *from;
    real scale;
} Line;

#ifdef BF16
#include "product_bf16.h"
#else
#include "product_real.h"
#endif

static int64_t panels(int64_t width) { return (width + PANEL - 1) / PANEL; }

/* Copy a part into B, as far as it falls into the panels [first, last). What fills the last panel up
   is never seen: a column of B makes a column of C. */
static void pack(const Job *job, int64_t first, int64_t last) {
    int64_t n0 = job->n0, n1 = n0 + job->width;
    int64_t start = first * PANEL > n0 ? first * PANEL : n0, end = last * PANEL < n1 ? last * PANEL : n1;
    while (start < end) { /* one panel after the other */
        int64_t stop = (start / PANEL + 1) * PANEL < end ? (start / PANEL + 1) * PANEL : end;
        for (int64_t k = 0; k < job->depth; k++) {
            const real *from =
                job->from ? job->from + k * job->row + (start - n0) * job->column : NULL;
            put(job->packed, job->k0 + k, start, from, job->column, stop - start);
        }
        start = stop;
    }
}

/* The same where B is not packed: its columns are rows of the weights as they are. */
static void product_of_parts(int64_t rows, const real *A, int64_t lda, const Packed *b, real *C,
                             int64_t ldc) {
    for (int64_t m = 0; m < rows; m++) {
        zero(C + m * ldc, b->width);
        for (int i = 0; i < b->count; i++) {
            const Job *job = b->jobs + i;
            if (job->packed != b || !job->from) continue;
            real *to = C + m * ldc + job->n0;
            const real *x = A + m * lda + job->k0;
            if (job->depth == 1) add_scaled(to, job->from, *x, job->width); /* a bias */
            else add_rows_times(to, job->from, x, job->width, job->depth);
        }
    }
}

static void product(int64_t rows, const real *A, int64_t lda, const Packed *b, real *C,
                    int64_t ldc, int add) {
    if (!b->data) product_of_parts(rows, A, lda, b, C, ldc);
    else if (rows) packed_product(rows, A, lda, b, C, ldc, add);
}
