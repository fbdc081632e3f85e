/* The switches of a fabric, and the hosts that only serve, in one thread. */
#ifndef FABRIC_H
#define FABRIC_H

#include "driver.h"

struct fabric;

struct fabric *fabric_open(struct bell *bell);
void fabric_close(struct fabric *fabric);
int fabric_switch(struct fabric *fabric, struct node *node, const struct switch_calls *calls);
int fabric_server(struct fabric *fabric, struct node *node, void *engine,
                  const struct engine_calls *calls);

/* Works until `fabric_stop`, and then until nothing is on its way to a switch or a server. */
void fabric_run(struct fabric *fabric);
void fabric_stop(struct fabric *fabric);

#endif
