/* One variant of the kernel: a type and an instruction set were chosen by the file that includes
 * this. All is static but one function, VARIANT. */

#include "problem.h"
#include "tape.h"
#include "vectors.h"

#include "product.h"

#include "cells.h"
#include "controller.h"

#include "forward.h"

#include "backward.h"

#include "gradients.h"

#include "call.h"
