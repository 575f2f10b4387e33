/* Double precision. */
#define TYPE f64
typedef double real;
typedef int64_t bits;
#define EXP_LIMIT 707.0
#define EXP_TERMS 13
#define LOG_TERMS 16
#define ROUNDER 6755399441055744.0 /* 1.5 * 2^52 */
#define MANTISSA_BITS 52
#define LN2_HIGH 6.93147180369123816490e-01
#define LN2_LOW 1.90821492927058770002e-10
#define square_root sqrt
