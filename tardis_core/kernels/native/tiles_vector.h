/* The block of C by the instruction that multiplies pairs of numbers and adds them up (AVX512_BF16).
 * Eight rows of two vectors stay in registers: enough for the additions not to wait for each other. */

enum { AT_A_TIME = 8 }; /* rows */

static void begin_blocks(void) {}
static void end_blocks(void) {}

/* Rows [first, first + AT_A_TIME) of a tile of A, by one panel of B or two. */
static inline ALWAYS_INLINE void some_rows(const Block *block, int64_t first, const int across) {
    const half *A = block->A[first / PANEL] + first % PANEL * TILE_DEPTH;
    const half *left = block->B[0], *right = block->B[1];
    __m512 made[AT_A_TIME][2];
    UNROLLED
    for (int m = 0; m < AT_A_TIME; m++) made[m][0] = made[m][1] = _mm512_setzero_ps();
    for (int64_t tile = 0; tile < block->depth; tile++, A += TILE)
        for (int64_t k = 0; k < TILE_DEPTH; k += 2, left += 2 * PANEL, right += 2 * PANEL) {
            __m512bh b[2];
            b[0] = (__m512bh)_mm512_loadu_si512(left);
            if (across) b[1] = (__m512bh)_mm512_loadu_si512(right);
            UNROLLED
            for (int m = 0; m < AT_A_TIME; m++) {
                int32_t pair;
                memcpy(&pair, A + m * TILE_DEPTH + k, sizeof pair);
                __m512bh a = (__m512bh)_mm512_set1_epi32(pair);
                made[m][0] = _mm512_dpbf16_ps(made[m][0], a, b[0]);
                if (across) made[m][1] = _mm512_dpbf16_ps(made[m][1], a, b[1]);
            }
        }
    for (int64_t m = 0; m < AT_A_TIME && first + m < block->rows; m++)
        for (int j = 0; j <= across; j++) {
            real *to = block->C + (first + m) * block->ldc + j * PANEL;
            int64_t n = block->width - j * PANEL;
            vec x = (vec)made[m][j];
            store_n(to, block->add ? x + load_n(to, n) : x, n);
        }
}

static void multiply_block(const Block *block) {
    for (int64_t first = 0; first < 2 * PANEL && first < block->rows; first += AT_A_TIME) {
        if (block->width > PANEL) some_rows(block, first, 1);
        else some_rows(block, first, 0);
    }
}
