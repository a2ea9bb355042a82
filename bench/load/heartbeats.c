/* Members of many groups that only send heartbeats, spread evenly over their pause. */
#include "membership.h"

#include <stdio.h>

static void run_for(membership_t *membership, int64_t ns) {
        const int64_t end = now_ns() + ns;
        while (now_ns() < end)
                membership_step(membership);
}

int run_heartbeats(const options_t *options) {
        await_coordinator(options, options->group);
        membership_t *membership =
            membership_new(options, (int)options->groups, (int)options->members);
        const double joined_s = (double)(now_ns() - membership->joining_ns) / 1e9;
        const int64_t first = now_ns();
        for (int i = 0; i < membership->count; i++)
                if (!membership->members[i].waiting)
                        membership->due_ns[i] =
                            first + membership->heartbeat_ns * i / membership->count;
        run_for(membership, membership->heartbeat_ns + membership->heartbeat_ns / 2);
        membership->heartbeats = membership->rejoins = 0;
        say_ready();
        const double cpu = cpu_seconds();
        const int64_t began = now_ns();
        run_for(membership, options->duration_ms * 1000000);
        const double seconds = (double)(now_ns() - began) / 1e9;
        if (membership->rejoins)
                die("%lld members were asked to join again", (long long)membership->rejoins);
        printf("{\"mode\":\"heartbeats\",\"count\":%lld,\"seconds\":%.6f,\"per_second\":%.1f,"
               "\"join_s\":%.3f,\"client_cpu_s\":%.4f}\n",
               (long long)membership->heartbeats, seconds,
               (double)membership->heartbeats / seconds, joined_s, cpu_seconds() - cpu);
        fflush(stdout);
        membership_leave_all(membership);
        return 0;
}
