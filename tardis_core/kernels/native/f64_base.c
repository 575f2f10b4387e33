#include "common.h"
#include "f64.h"
#include "base.h"
#define VARIANT run_f64_base
#include "variant.h"
