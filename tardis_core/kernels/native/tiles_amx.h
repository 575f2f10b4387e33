/* The block of C by the matrix unit (AMX): one instruction multiplies two tiles. */

/* What the eight tile registers hold: four tiles of C, two of A and two of B, each of 16 rows of 64 bytes. */
static const struct {
    uint8_t palette, start_row, reserved[14];
    uint16_t bytes_per_row[16];
    uint8_t rows[16];
} TILE_SHAPES __attribute__((aligned(64))) = {
    .palette = 1,
    .bytes_per_row = {64, 64, 64, 64, 64, 64, 64, 64},
    .rows = {16, 16, 16, 16, 16, 16, 16, 16},
};

/* The compiler does not know that tile instructions read memory: without the barriers it may move what is
   written before or after all of them to between them. */
#define BARRIER() __asm__ volatile("" ::: "memory")

static void begin_blocks(void) {
    BARRIER();
    _tile_loadconfig(&TILE_SHAPES);
}
static void end_blocks(void) {
    _tile_release();
    BARRIER();
}

/* Write a tile to C as far as C has rows and columns there, or add it. */
static void give_tile(const Block *block, const real *tile, int down, int across) {
    for (int64_t m = 0; m < PANEL && down * PANEL + m < block->rows; m++) {
        real *to = block->C + (down * PANEL + m) * block->ldc + across * PANEL;
        int64_t n = block->width - across * PANEL;
        vec x = load(tile + m * PANEL);
        store_n(to, block->add ? x + load_n(to, n) : x, n);
    }
}

static void multiply_block(const Block *block) {
    const int tall = block->rows > PANEL, wide = block->width > PANEL;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int64_t k = 0; k < block->depth * TILE; k += TILE) {
        _tile_loadd(4, block->A[0] + k, 64);
        _tile_loadd(6, block->B[0] + k, 64);
        _tile_dpbf16ps(0, 4, 6);
        if (wide) {
            _tile_loadd(7, block->B[1] + k, 64);
            _tile_dpbf16ps(1, 4, 7);
        }
        if (tall) {
            _tile_loadd(5, block->A[1] + k, 64);
            _tile_dpbf16ps(2, 5, 6);
            if (wide) _tile_dpbf16ps(3, 5, 7);
        }
    }
    _Alignas(64) real C[4][PANEL * PANEL];
    _tile_stored(0, C[0], 64);
    _tile_stored(1, C[1], 64);
    _tile_stored(2, C[2], 64);
    _tile_stored(3, C[3], 64);
    give_tile(block, C[0], 0, 0);
    if (wide) give_tile(block, C[1], 0, 1);
    if (tall) give_tile(block, C[2], 1, 0);
    if (tall && wide) give_tile(block, C[3], 1, 1);
}
