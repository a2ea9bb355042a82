/* The state machine of membership.h. */
#include "membership.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SESSION_MS = 45000, REBALANCE_MS = 60000, RETRY_NS = 50000000, SCAN_NS = 1000000 };
#define NEVER INT64_MAX

static const char PROTOCOL[] = "range";

/* ConsumerProtocolSubscription and -Assignment, version 0: one topic; partition 0 of it. */
static void put_subscription(frame_t *frame, const char *topic) {
        put_i32(frame, (int32_t)(2 + 4 + 2 + strlen(topic) + 4));
        put_i16(frame, 0);
        put_i32(frame, 1);
        put_text(frame, topic);
        put_i32(frame, -1); /* no user data */
}

static void put_assignment(frame_t *frame, const char *topic) {
        put_i32(frame, (int32_t)(2 + 4 + 2 + strlen(topic) + 4 + 4 + 4));
        put_i16(frame, 0);
        put_i32(frame, 1);
        put_text(frame, topic);
        put_i32(frame, 1);
        put_i32(frame, 0);
        put_i32(frame, -1); /* no user data */
}

static void ask(membership_t *membership, int index) {
        frame_end(&membership->frame);
        membership->members[index].waiting = true;
        membership->due_ns[index] = NEVER;
        pool_send(membership->pool, index, membership->frame.bytes, membership->frame.length);
}

static void enter(membership_t *membership, member_t *member, state_t state) {
        membership->steady += (state == STEADY) - (member->state == STEADY);
        membership->left += (state == LEFT) - (member->state == LEFT);
        member->state = state;
}

void membership_join(membership_t *membership, int index) {
        member_t *member = &membership->members[index];
        frame_t *frame = &membership->frame;
        enter(membership, member, JOINING);
        frame_begin(frame, API_JOIN_GROUP, 5, false);
        put_text(frame, member->group);
        put_i32(frame, SESSION_MS);
        put_i32(frame, REBALANCE_MS);
        put_text(frame, member->id);
        put_text(frame, NULL); /* not a static member */
        put_text(frame, "consumer");
        put_i32(frame, 1);
        put_text(frame, PROTOCOL);
        put_subscription(frame, membership->options->topic);
        ask(membership, index);
}

static void begin_of_member(membership_t *membership, int index, int16_t api, int16_t version) {
        const member_t *member = &membership->members[index];
        frame_begin(&membership->frame, api, version, false);
        put_text(&membership->frame, member->group);
        if (api != API_LEAVE_GROUP)
                put_i32(&membership->frame, member->generation);
        put_text(&membership->frame, member->id);
        if (api != API_LEAVE_GROUP)
                put_text(&membership->frame, NULL); /* not a static member */
}

void membership_heartbeat(membership_t *membership, int index) {
        begin_of_member(membership, index, API_HEARTBEAT, 3);
        ask(membership, index);
}

/* `joined` is what follows the member's id in a JoinGroup answer: for the leader, all members. */
static void sync(membership_t *membership, int index, answer_t joined) {
        frame_t *frame = &membership->frame;
        const int32_t count = get_i32(&joined);
        enter(membership, &membership->members[index], SYNCING);
        begin_of_member(membership, index, API_SYNC_GROUP, 3);
        put_i32(frame, count);
        for (int32_t i = 0; i < count; i++) {
                char id[MAX_ID];
                get_text(&joined, id, sizeof id);
                put_text(frame, id);
                put_assignment(frame, membership->options->topic);
                get_text(&joined, id, sizeof id); /* instance id */
                skip(&joined, (size_t)get_i32(&joined));
        }
        ask(membership, index);
}

static void on_joined(membership_t *membership, int index, int16_t error, answer_t answer) {
        member_t *member = &membership->members[index];
        char leader[MAX_ID];
        const int32_t generation = get_i32(&answer);
        get_text(&answer, leader, sizeof leader); /* the protocol's name */
        get_text(&answer, leader, sizeof leader);
        if (error == ERROR_NONE || error == ERROR_MEMBER_ID_REQUIRED)
                get_text(&answer, member->id, sizeof member->id);
        if (error == ERROR_MEMBER_ID_REQUIRED) {
                membership_join(membership, index);
        } else if (is_passing(error)) {
                membership->due_ns[index] = now_ns() + RETRY_NS;
        } else if (error) {
                die("JoinGroup of %s: error %d", member->group, error);
        } else {
                member->generation = generation;
                member->leads = !strcmp(leader, member->id);
                sync(membership, index, answer);
        }
}

static void on_steady(membership_t *membership, int index, int16_t error) {
        member_t *member = &membership->members[index];
        if (error == ERROR_REBALANCE_IN_PROGRESS) {
                membership->rejoins++;
                membership_join(membership, index);
                return;
        }
        if (error)
                die("%s of %s: error %d", member->state == SYNCING ? "SyncGroup" : "Heartbeat",
                    member->group, error);
        if (member->state == STEADY)
                membership->heartbeats++;
        enter(membership, member, STEADY);
        membership->due_ns[index] =
            membership->heartbeat_ns ? now_ns() + membership->heartbeat_ns : NEVER;
}

static void on_answer(void *opaque, int index, answer_t answer) {
        membership_t *membership = opaque;
        member_t *member = &membership->members[index];
        skip(&answer, 4); /* throttle time */
        const int16_t error = get_i16(&answer);
        member->waiting = false;
        if (member->state == JOINING)
                on_joined(membership, index, error, answer);
        else if (member->state != LEFT)
                on_steady(membership, index, error);
        else if (error)
                die("LeaveGroup of %s: error %d", member->group, error);
}

void membership_step(membership_t *membership) {
        pool_poll(membership->pool, 1, on_answer, membership);
        const int64_t now = now_ns();
        if (now < membership->scanned_ns + SCAN_NS)
                return;
        membership->scanned_ns = now;
        for (int i = 0; i < membership->count; i++) {
                if (membership->due_ns[i] > now)
                        continue;
                if (membership->members[i].state == JOINING)
                        membership_join(membership, i);
                else
                        membership_heartbeat(membership, i);
        }
}

membership_t *membership_new(const options_t *options, int groups, int per_group) {
        membership_t *membership = calloc(1, sizeof *membership);
        const int64_t deadline = now_ns() + options->timeout_ms * 1000000;
        membership->options = options;
        membership->count = groups * per_group;
        membership->members = calloc((size_t)membership->count, sizeof *membership->members);
        membership->due_ns = calloc((size_t)membership->count, sizeof *membership->due_ns);
        membership->heartbeat_ns = options->heartbeat_ms * 1000000;
        membership->pool = pool_new(options->bootstrap, membership->count);
        membership->joining_ns = now_ns();
        for (int i = 0; i < membership->count; i++) {
                member_t *member = &membership->members[i];
                snprintf(member->group, sizeof member->group, "%s-%d", options->group,
                         i / per_group);
                membership_join(membership, i);
        }
        while (membership->steady < membership->count) {
                membership_step(membership);
                if (now_ns() > deadline)
                        die("%d of %d members have joined", membership->steady, membership->count);
        }
        return membership;
}

void membership_leave_all(membership_t *membership) {
        const int64_t deadline = now_ns() + membership->options->timeout_ms * 1000000;
        membership->heartbeat_ns = 0;
        for (bool answered = false; !answered;) {
                answered = membership->left == membership->count;
                for (int i = 0; i < membership->count; i++) {
                        member_t *member = &membership->members[i];
                        if (member->waiting) {
                                answered = false;
                        } else if (member->state != LEFT) {
                                begin_of_member(membership, i, API_LEAVE_GROUP, 1);
                                enter(membership, member, LEFT);
                                ask(membership, i);
                        }
                }
                pool_poll(membership->pool, 10, on_answer, membership);
                if (now_ns() > deadline)
                        die("%d of %d members have left", membership->left, membership->count);
        }
}
