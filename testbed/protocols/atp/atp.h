/* What ATP's variants share with it: all of its hosts' rules but congestion control. */
#ifndef ATP_H
#define ATP_H

#include "tree.h"

extern const struct rules atp_rules;

#endif
