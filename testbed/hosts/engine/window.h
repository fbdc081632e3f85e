/* A window of slots: when fragments are sent and retransmitted. See window.c. */
#ifndef WINDOW_H
#define WINDOW_H

#include <stdbool.h>
#include <stdint.h>

/* Times are seconds on the driver's clock. */
struct window {
    uint32_t size;
    uint32_t outstanding;
    uint64_t next, sent_end;   /* the lowest that may be unsent; one past the highest sent */
    uint64_t turns, overtaken; /* first sendings so far; one past the latest one done */
    uint64_t done_end;         /* one past the highest done */
    double oldest;             /* no fragment in flight was sent earlier, */
    uint64_t lowest_turn;      /* nor, if it was sent once, in an earlier turn */
    double newest;             /* latest sending time among fragments sent once and done */
    double timeout, look_again;
    double silence, probe_at; /* the longest silence allowed, and when it will be over */
    double heard;             /* when the latest answer came, or the first in flight was sent */
    double stalled;           /* fragments sent before this were in flight during a silence */
    double lost_before;       /* a timeout: fragments sent before this may all be lost */
    uint32_t repairs;         /* how many of them may be retransmitted now */
    double answered;          /* latest sending time among fragments sent twice and done */
    uint64_t answered_end;    /* the end of that fragment's chunk */
    bool touched, sampled, first_answers; /* in this batch of packets */
    bool settled; /* a batch was processed; its missing fragments are not retransmitted yet */
};

struct tree;

void window_open(struct tree *tree, uint32_t size, uint64_t begins);
void window_pump(struct tree *tree, double now);
/* `flags` are those of the answer. FLAG_RESEND: a rank's contribution was sent again, so that the
   answer took longer. */
void window_answered(struct tree *tree, uint64_t sequence, uint8_t flags, double now);
bool window_send(struct tree *tree, uint64_t sequence, uint8_t flags, double now);
double window_round_trip(const struct tree *tree);
double window_deadline(const struct window *window);

#endif
