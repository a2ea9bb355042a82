/* Members of classic groups, each on a connection of its own, as a client library would have it:
 * they join (in two steps, KIP-394), the leader assigns, all sync and send heartbeats. */
#ifndef HEADRACE_BENCH_MEMBERSHIP_H
#define HEADRACE_BENCH_MEMBERSHIP_H

#include "wire.h"

enum { MAX_ID = 128 };
typedef enum { JOINING, SYNCING, STEADY, LEFT } state_t;

typedef struct {
        char group[64];
        char id[MAX_ID];
        int32_t generation;
        state_t state;
        bool leads;
        bool waiting; /* for an answer */
} member_t;

typedef struct {
        const options_t *options;
        pool_t *pool;
        member_t *members;
        int64_t *due_ns; /* of each member, the next join attempt or heartbeat */
        int64_t scanned_ns;
        int64_t joining_ns; /* when the first was about to join: all are connected */
        int count;
        int steady;
        int left;
        int64_t heartbeat_ns; /* 0: none */
        int64_t heartbeats;   /* answered */
        int64_t rejoins;      /* that a heartbeat's or a sync's answer asked for */
        frame_t frame;
} membership_t;

/* All members of `groups` groups, steady. Member i is of group i / per_group. */
membership_t *membership_new(const options_t *options, int groups, int per_group);
/* Sends what is due and takes in what comes within about a millisecond. */
void membership_step(membership_t *membership);
void membership_join(membership_t *membership, int index);
void membership_heartbeat(membership_t *membership, int index);
void membership_leave_all(membership_t *membership);

#endif
