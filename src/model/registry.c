/* The families that this build knows. */
#include "model/family.h"

const pawl_family *const pawl__families[] = {&pawl__family_qwen3_5, NULL};
