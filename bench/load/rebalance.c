/* Rebalances of one group: from the last member's JoinGroup to the last answer to a SyncGroup.
 *
 * The leader joins again, the others learn of it by a heartbeat and join too, as clients do. The
 * group was formed before: the initial delay, which is a setting, is no part of it. */
#include "membership.h"

#include <stdio.h>

static int leader_of(const membership_t *membership) {
        for (int i = 0; i < membership->count; i++)
                if (membership->members[i].leads)
                        return i;
        die("the group has no leader");
}

/* Until a member that asks is told to join again, which it does at once. */
static void await_rebalance(membership_t *membership, int asking, int64_t deadline) {
        member_t *member = &membership->members[asking];
        while (member->state == STEADY) {
                if (!member->waiting)
                        membership_heartbeat(membership, asking);
                membership_step(membership);
                if (now_ns() > deadline)
                        die("no rebalance began");
        }
}

static int64_t rebalance(membership_t *membership, int64_t deadline) {
        const int leader = leader_of(membership);
        const int asking = (leader + 1) % membership->count;
        membership_join(membership, leader);
        await_rebalance(membership, asking, deadline);
        for (int i = 0; i < membership->count; i++)
                if (i != leader && i != asking)
                        membership_join(membership, i);
        const int64_t last_joined = now_ns();
        while (membership->steady < membership->count) {
                membership_step(membership);
                if (now_ns() > deadline)
                        die("%d of %d members have synced", membership->steady, membership->count);
        }
        return now_ns() - last_joined;
}

int run_rebalance(const options_t *options) {
        const int64_t deadline = now_ns() + options->timeout_ms * 1000000;
        samples_t samples = samples_new((size_t)options->rounds);
        await_coordinator(options, options->group);
        membership_t *membership = membership_new(options, 1, (int)options->members);
        membership->heartbeat_ns = 0; /* each round asks by itself */
        for (int i = 0; i < membership->count; i++) {
                while (membership->members[i].waiting)
                        membership_step(membership);
                membership->due_ns[i] = INT64_MAX;
        }
        for (int64_t round = 0; round < options->rounds; round++)
                samples_add(&samples, rebalance(membership, deadline));
        printf("{\"mode\":\"rebalance\",");
        samples_print(&samples);
        printf("}\n");
        fflush(stdout);
        membership_leave_all(membership);
        return 0;
}
