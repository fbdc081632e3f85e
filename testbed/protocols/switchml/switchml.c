/* SwitchML at a host (Sapio et al., NSDI 2021): a retransmission is the same packet, two pools of
   slots are used in turn, and the window is fixed. */
#include "tree.h"

const struct protocol switchml = {ON_TREES, .rules = &pool, .control = &none};
