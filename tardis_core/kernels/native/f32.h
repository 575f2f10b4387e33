/* Single precision. */
#define TYPE f32
typedef float real;
typedef int32_t bits;
#define EXP_LIMIT 87.0f
#define EXP_TERMS 6
#define LOG_TERMS 7
#define ROUNDER 12582912.0f /* 1.5 * 2^23 */
#define MANTISSA_BITS 23
#define LN2_HIGH 0.693359375f
#define LN2_LOW -2.12194440e-4f
#define square_root sqrtf
