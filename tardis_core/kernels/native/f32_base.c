#include "common.h"
#include "f32.h"
#include "base.h"
#define VARIANT run_f32_base
#include "variant.h"
