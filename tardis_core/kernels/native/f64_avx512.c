#include "common.h"
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#include "f64.h"
#include "avx512.h"
#define VARIANT run_f64_avx512
#include "variant.h"
#endif
