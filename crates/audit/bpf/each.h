/* Each call and each operation of a ring, one by one: what phases and timelines are made of.
 *
 * A part of audit.bpf.c, for those who want more than its counts. Each return, and each result of an
 * operation, fills an event in a ring buffer (Linux 5.8), with the beginning of what lies in the
 * memory of the program.
 */

static long HELPER(read_user_string)(void *to, u32 size, const void *from) =
	(void *)BPF_FUNC_probe_read_user_str;
static u64 HELPER(now)(void) = (void *)BPF_FUNC_ktime_get_ns;
static void *HELPER(ring_reserve)(void *ring, u64 size, u64 flags) =
	(void *)BPF_FUNC_ringbuf_reserve;
static void HELPER(ring_submit)(void *event, u64 flags) = (void *)BPF_FUNC_ringbuf_submit;

/* Where what a call was given, or gave, lies in the memory of the program. */
enum look {
	NOWHERE,
	DATA,	 /* an argument points to as many bytes as the result says */
	VECTOR,	 /* to an array of iovec; the first of them is looked at */
	MESSAGE, /* to a msghdr, which points to such an array */
	LETTERS, /* to an array of mmsghdr; the first of them is looked at */
	PATH,	 /* to a string */
};

struct {
	NUMBER(type, BPF_MAP_TYPE_ARRAY);
	TYPE(key, u32);	  /* the number of the call; for operations of a ring, CALLS + opcode */
	TYPE(value, u32); /* enum look | the argument << 8 */
	NUMBER(max_entries, CALLS + OPERATIONS);
} looks SECTION(".maps");

#define MEMORY 64

/* A call that returned, or an operation that was done. */
struct event {
	u64 start; /* ns of CLOCK_MONOTONIC; 0 if it began before anybody looked */
	u64 end;
	u32 process; /* as user space knows them */
	u32 thread;
	u32 call; /* as the key of `looks`; REPEATED is added to that */
	u32 size; /* so many bytes of `memory` are there */
	s64 result;
	u64 arguments[6]; /* of an operation as in `struct submitted` */
	u8 memory[MEMORY];
};

/* Of an event: one of several results of an operation. */
#define REPEATED 0x1000

struct {
	NUMBER(type, BPF_MAP_TYPE_RINGBUF);
	NUMBER(max_entries, 1 << 25); /* 200,000 calls: all of a busy program's in a tenth of a second */
} events SECTION(".maps");

/* When the call that a watched task is in began. */
struct {
	NUMBER(type, BPF_MAP_TYPE_HASH);
	TYPE(key, u64); /* as in `tasks` */
	TYPE(value, u64);
	NUMBER(max_entries, 32768);
} starts SECTION(".maps");

/* Which operation a result belongs to: 0 and the address of its request; of those that repeat
 * themselves, which are told without, the address of the ring and what the program calls them. */
struct operation {
	u64 ring;
	u64 name;
};

struct submitted {
	u64 start;
	/* The descriptor, the address, the length | the flags of the operation << 32, the offset, the
	 * place in the ring's table | the flags of the entry << 32 | its priority << 48, the ring */
	u64 arguments[6];
	u32 opcode;
	u32 repeats; /* 1 if it may have several results */
};

struct {
	NUMBER(type, BPF_MAP_TYPE_HASH);
	TYPE(key, struct operation);
	TYPE(value, struct submitted);
	NUMBER(max_entries, 65536);
} under_way SECTION(".maps");

static void forget_start(u64 task)
{
	map_delete(&starts, &task);
}

/* raw_tp: struct pt_regs *registers, long number */
SECTION("raw_tp/sys_enter")
int on_enter(void *context)
{
	(void)context;
	u64 task = current_task(), start = now();
	/* Without room it is not known when the call began, which is told as such. */
	if (map_lookup(&tasks, &task))
		map_update(&starts, &task, &start, BPF_ANY);
	return 0;
}

/* What an iovec, or the first of several, says: where, and how many bytes. */
static u64 first_of(u64 vector, u64 *size)
{
	u64 first[2] = {0, 0};
	read_user(first, sizeof(first), (const void *)vector);
	if (first[1] < *size)
		*size = first[1];
	return first[0];
}

#define MSGHDR_IOV 16
#define MMSGHDR_LEN 56

/* Of the program's memory, as much as there is room for. */
static void look(struct event *event, long result)
{
	u32 call = event->call & ~REPEATED;
	u32 *where = map_lookup(&looks, &call);
	if (!where || *where == NOWHERE)
		return;
	u32 shape = *where & 0xff, which = *where >> 8 & 0xff;
	u64 address = which == 0 ? event->arguments[0] : event->arguments[1];
	if (shape == PATH) {
		long size = read_user_string(event->memory, MEMORY, (const void *)address);
		event->size = size > 0 ? size - 1 : 0; /* without its end */
		return;
	}
	if (result <= 0)
		return;
	u64 size = result;
	if (shape == LETTERS) {
		u32 length = 0;
		read_user(&length, sizeof(length), (const void *)(address + MMSGHDR_LEN));
		size = length;
	}
	if (shape == MESSAGE || shape == LETTERS)
		read_user(&address, sizeof(address), (const void *)(address + MSGHDR_IOV));
	if (shape != DATA)
		address = first_of(address, &size);
	if (size > MEMORY)
		size = MEMORY;
	if (!read_user(event->memory, size, (const void *)address))
		event->size = size;
}

/* An event of the current task, or 0 if there is no room. */
static struct event *new_event(u32 call, long result)
{
	struct bpf_pidns_info names = known_as();
	struct event *event = ring_reserve(&events, sizeof(*event), 0);
	if (!event) {
		count_total(LOST_EVENTS);
		return 0;
	}
	event->start = 0;
	event->end = now();
	event->process = names.tgid;
	event->thread = names.pid;
	event->call = call;
	event->size = 0;
	event->result = result;
	return event;
}

/* Whoever reads them looks again by itself: waking it would cost more than the rest. */
static void tell(struct event *event)
{
	ring_submit(event, BPF_RB_NO_WAKEUP);
}

static void tell_call(const char *registers, u32 call, long result)
{
	u64 task = current_task();
	u64 *start = map_lookup(&starts, &task);
	struct event *event = new_event(call, result);
	if (!event)
		return;
	if (start)
		event->start = *start;
	for (u32 which = 0; which < 6; which++)
		event->arguments[which] = argument(registers, which);
	look(event, result);
	tell(event);
}

/* What a program asks of a ring: struct io_uring_sqe of <linux/io_uring.h>. */
struct entry {
	u8 opcode;
	u8 flags;
	u16 priority;
	s32 descriptor;
	u64 offset;
	u64 address;
	u32 length;
	u32 operation_flags;
	u64 user_data;
	u32 buffer;
	u32 place;
	u64 rest[2];
};

#define ENTRY_SKIPS_SUCCESS (1u << 6)

/* Where these entries are, by names of the kernel's own. */
struct io_ring_ctx {
	u32 flags;
	u32 *sq_array;
	struct entry *sq_sqes;
	u32 cached_sq_head;
	u32 sq_entries;
} __attribute__((preserve_access_index));

#define RING_ENTRIES_ARE_LONG (1u << 10)
#define RING_WITHOUT_ARRAY (1u << 16)

/* The entry that a request has just been made of. */
static void read_entry(const struct io_ring_ctx *ring, struct entry *entry)
{
	u32 flags = 0, head = 0, length = 0;
	const u32 *array = 0;
	const struct entry *entries = 0;
	read_kernel(&flags, sizeof(flags), &ring->flags);
	read_kernel(&head, sizeof(head), &ring->cached_sq_head);
	read_kernel(&length, sizeof(length), &ring->sq_entries);
	read_kernel(&entries, sizeof(entries), &ring->sq_sqes);
	u64 at = (head - 1) & (length - 1);
	if (!(flags & RING_WITHOUT_ARRAY)) {
		u32 place = 0;
		read_kernel(&array, sizeof(array), &ring->sq_array);
		read_kernel(&place, sizeof(place), array + at);
		at = place;
	}
	if (flags & RING_ENTRIES_ARE_LONG)
		at *= 2;
	read_kernel(entry, sizeof(*entry), (const char *)entries + at * sizeof(*entry));
}

#define OPERATION_POLL_ADD 6
#define OPERATION_RECVMSG 10
#define OPERATION_ACCEPT 13
#define OPERATION_RECV 27
#define OPERATION_READ_MULTISHOT 49
#define OPERATION_RECV_ZC 58

static int repeats(const struct entry *entry)
{
	switch (entry->opcode) {
	case OPERATION_ACCEPT:
		return entry->priority & 1;
	case OPERATION_RECV:
	case OPERATION_RECVMSG:
		return entry->priority & 2;
	case OPERATION_POLL_ADD:
		return entry->length & 1;
	case OPERATION_READ_MULTISHOT:
	case OPERATION_RECV_ZC:
		return 1;
	}
	return 0;
}

static void fill(struct event *event, const struct submitted *submitted)
{
	event->start = submitted->start;
	for (u32 which = 0; which < 6; which++)
		event->arguments[which] = submitted->arguments[which];
}

static void tell_submitted(const struct io_kiocb *request, u32 opcode)
{
	const struct io_ring_ctx *ring = 0;
	struct entry entry = {};
	u64 user_data = 0;
	read_kernel(&ring, sizeof(ring), &request->ctx);
	read_kernel(&user_data, sizeof(user_data), &request->cqe.user_data);
	read_entry(ring, &entry);
	struct submitted submitted = {.start = now(), .opcode = opcode, .arguments = {-1}};
	/* Otherwise entries are not where they are looked for, and nothing is known of this one. */
	int found = entry.opcode == opcode && entry.user_data == user_data;
	if (found) {
		submitted.arguments[0] = entry.descriptor;
		submitted.arguments[1] = entry.address;
		submitted.arguments[2] = entry.length | (u64)entry.operation_flags << 32;
		submitted.arguments[3] = entry.offset;
		submitted.arguments[4] =
			entry.place | (u64)entry.flags << 32 | (u64)entry.priority << 48;
		submitted.arguments[5] = (u64)ring;
		submitted.repeats = repeats(&entry) != 0;
	}
	/* Of a success nobody will be told; of a failure, without its beginning. */
	if (found && entry.flags & ENTRY_SKIPS_SUCCESS) {
		struct event *event = new_event(CALLS + opcode, 0);
		if (event) {
			fill(event, &submitted);
			tell(event);
		}
		return;
	}
	struct operation key = {0, (u64)request};
	if (map_update(&under_way, &key, &submitted, BPF_ANY))
		count_total(LOST_EVENTS);
	key = (struct operation){(u64)ring, user_data};
	if (submitted.repeats && map_update(&under_way, &key, &submitted, BPF_ANY))
		count_total(LOST_EVENTS);
}

/* The request is done, and its memory will be another's. */
static void forget_operation(u64 ring, u64 request, u64 user_data)
{
	struct operation key = {ring, user_data}, plain = {0, request};
	struct submitted *submitted = map_lookup(&under_way, &plain);
	if (!submitted)
		return;
	if (submitted->repeats)
		map_delete(&under_way, &key);
	map_delete(&under_way, &plain);
}

static void tell_result(u64 ring, u64 request, u32 opcode, u64 user_data, s32 result)
{
	struct operation key = {ring, user_data}, plain = {0, request};
	struct submitted *submitted = map_lookup(&under_way, request ? &plain : &key);
	if (submitted)
		opcode = submitted->opcode;
	struct event *event = new_event((CALLS + opcode) | (request ? 0 : REPEATED), result);
	if (event) {
		for (u32 which = 0; which < 6; which++)
			event->arguments[which] = -1;
		if (submitted)
			fill(event, submitted);
		look(event, result);
		tell(event);
	}
	if (request)
		forget_operation(ring, request, user_data);
}
