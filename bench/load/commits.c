/* Offset commits, one partition a request: each connection sends the next when the last is answered.
 *
 * With joined=1 each of `groups` groups has `members` members that commit with their generation;
 * otherwise all connections commit to one group that has no members. */
#include "membership.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
        uint8_t *request;
        size_t length;
        size_t offset_at;
        bool waiting;
} committer_t;

typedef struct {
        const options_t *options;
        pool_t *pool;
        committer_t *committers;
        int64_t offset;
        int64_t answered;
        int waiting;
        bool ending;
} commits_t;

/* OffsetCommit 8; the bytes of the offset are where *offset_at says. */
static committer_t request_of(const options_t *options, int32_t partition, const char *group,
                              int32_t generation, const char *id) {
        frame_t frame = {0};
        frame_begin(&frame, API_OFFSET_COMMIT, 8, true);
        put_compact_text(&frame, group);
        put_i32(&frame, generation);
        put_compact_text(&frame, id);
        put_compact_text(&frame, NULL); /* not a static member */
        put_i8(&frame, 2);              /* one topic */
        put_compact_text(&frame, options->topic);
        put_i8(&frame, 2); /* one partition */
        put_i32(&frame, partition);
        const size_t offset_at = frame.length;
        put_i64(&frame, 0);
        put_i32(&frame, -1); /* leader epoch */
        put_compact_text(&frame, "");
        put_i8(&frame, 0); /* no tags, three times */
        put_i8(&frame, 0);
        put_i8(&frame, 0);
        frame_end(&frame);
        return (committer_t){.request = frame.bytes, .length = frame.length,
                             .offset_at = offset_at};
}

static void commit(commits_t *commits, int index) {
        committer_t *committer = &commits->committers[index];
        patch_i32(committer->request + CORRELATION_AT, (int32_t)commits->offset);
        patch_i64(committer->request + committer->offset_at, commits->offset++);
        committer->waiting = true;
        commits->waiting++;
        pool_send(commits->pool, index, committer->request, committer->length);
}

static void on_committed(void *opaque, int index, answer_t answer) {
        commits_t *commits = opaque;
        /* tags, throttle time, one topic, its name, one partition, its index */
        skip(&answer, 1 + 4 + 1 + 1 + strlen(commits->options->topic) + 1 + 4);
        const int16_t error = get_i16(&answer);
        commits->committers[index].waiting = false;
        commits->waiting--;
        if (error && !(is_passing(error) && commits->ending))
                die("OffsetCommit: error %d", error);
        commits->answered += !error;
        if (!commits->ending)
                commit(commits, index);
}

/* One commit of each connection, until the coordinators take them all. */
static void prove(commits_t *commits, int count) {
        const int64_t deadline = now_ns() + commits->options->timeout_ms * 1000000;
        commits->ending = true; /* answers are not followed by the next request */
        do {
                if (now_ns() > deadline)
                        die("commits are not taken");
                commits->answered = 0;
                for (int i = 0; i < count; i++)
                        commit(commits, i);
                while (commits->waiting && now_ns() < deadline)
                        pool_poll(commits->pool, 10, on_committed, commits);
        } while (commits->answered < count);
        commits->ending = false;
        commits->answered = 0;
}

static void open_committers(commits_t *commits, membership_t *membership, int count) {
        const options_t *options = commits->options;
        commits->pool = membership ? membership->pool : pool_new(options->bootstrap, count);
        commits->committers = calloc((size_t)count, sizeof *commits->committers);
        for (int i = 0; i < count; i++) {
                const member_t *member = membership ? &membership->members[i] : NULL;
                commits->committers[i] =
                    request_of(options, (int32_t)(i % options->partitions),
                               member ? member->group : options->group,
                               member ? member->generation : -1, member ? member->id : "");
        }
}

int run_commits(const options_t *options) {
        commits_t commits = {.options = options};
        const int count = (int)(options->groups * options->members);
        membership_t *membership = NULL;
        await_coordinator(options, options->group);
        if (options->joined) {
                membership = membership_new(options, (int)options->groups, (int)options->members);
                /* A heartbeat's answer must not be taken for a commit's; the session outlives us. */
                membership->heartbeat_ns = 0;
                for (int i = 0; i < count; i++)
                        while (membership->members[i].waiting)
                                membership_step(membership);
        }
        open_committers(&commits, membership, count);
        prove(&commits, count);
        say_ready();
        const double cpu = cpu_seconds();
        const int64_t began = now_ns();
        const int64_t end = began + options->duration_ms * 1000000;
        for (int i = 0; i < count; i++)
                commit(&commits, i);
        while (now_ns() < end)
                pool_poll(commits.pool, 10, on_committed, &commits);
        const double seconds = (double)(now_ns() - began) / 1e9;
        const int64_t answered = commits.answered;
        printf("{\"mode\":\"commits\",\"count\":%lld,\"seconds\":%.6f,\"per_second\":%.1f,"
               "\"client_cpu_s\":%.4f}\n",
               (long long)answered, seconds, (double)answered / seconds, cpu_seconds() - cpu);
        fflush(stdout);
        commits.ending = true;
        while (commits.waiting && now_ns() < end + options->timeout_ms * 1000000)
                pool_poll(commits.pool, 10, on_committed, &commits);
        if (membership)
                membership_leave_all(membership);
        return 0;
}
