/* Names of the routing methods. */
#include "op/moe.h"

const char *pawl__moe_method_name(pawl_moe_method m)
{
    static const char *const names[PAWL_ROUTE_METHODS] = {
        "Default", "Renormalize",   "DeepSeekV3", "Llama4",  "RenormalizeNaive",
        "TopK",    "SigmoidRenorm", "MiniMax2",   "Sigmoid", "TopKSigmoid",
    };
    return (unsigned)m < PAWL_ROUTE_METHODS ? names[m] : "?";
}
