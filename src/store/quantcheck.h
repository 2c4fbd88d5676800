/* The lists of unquantised modules in a config, compared with what is stored. Formats are decided from the tensors alone
 * (store/weights.h); a list that says otherwise is only worth a warning. */
#ifndef PAWL_STORE_QUANTCHECK_H
#define PAWL_STORE_QUANTCHECK_H

#include "store/checkpoint.h"

/* Warns where quantization_config and hf_quant_config.json contradict the tensors, or each other. */
void pawl__quantcheck(pawl_checkpoint *ck);

/* True when the pattern covers the dotted module name: '*' stands for anything, dots included; a name without '*' covers
 * itself and what lies under it. A leading "model.language_model." or "model." may be missing on either side. */
int pawl__quant_pattern_covers(const char *pattern, const char *module);

#endif
