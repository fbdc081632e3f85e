#include "queue.h"

#include <errno.h>
#include <stdlib.h>

int queue_open(struct queue *queue, uint32_t address, uint32_t least)
{
    uint32_t size = 64;
    while (size < least)
        size *= 2;
    *queue = (struct queue){.to = address, .mask = size - 1};
    queue->packets = malloc(size * sizeof *queue->packets);
    return queue->packets ? 0 : -ENOMEM;
}

void queue_close(struct queue *queue)
{
    free(queue->packets);
}
