/* Any machine: vectors of 16 bytes, which every compiler has. */
#define VECTOR_BYTES 16
#define MR 4
#define AT_ONCE 4
