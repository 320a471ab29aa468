/* An event for each call and each operation of a ring: the input of phases and timelines.
 *
 * A part of audit.bpf.c. Each return, and each result of an operation, writes an event to a ring
 * buffer (Linux 5.8), with the first bytes of the program's data.
 */

static long HELPER(read_user_string)(void *to, u32 size, const void *from) =
	(void *)BPF_FUNC_probe_read_user_str;
static u64 HELPER(now)(void) = (void *)BPF_FUNC_ktime_get_ns;
static void *HELPER(ring_reserve)(void *ring, u64 size, u64 flags) =
	(void *)BPF_FUNC_ringbuf_reserve;
static void HELPER(ring_submit)(void *event, u64 flags) = (void *)BPF_FUNC_ringbuf_submit;

/* Where the input or output data of a call are in the memory of the program. */
enum look {
	NOWHERE,
	DATA,	 /* an argument points to data; the result is their length */
	VECTOR,	 /* to an array of iovec; only the first is read */
	MESSAGE, /* to a msghdr, which points to such an array */
	LETTERS, /* to an array of mmsghdr; only the first is read */
	PATH,	 /* to a string */
};

struct {
	NUMBER(type, BPF_MAP_TYPE_ARRAY);
	TYPE(key, u32);	  /* the number of the call; for operations of a ring, CALLS + opcode */
	TYPE(value, u32); /* enum look | the argument << 8 */
	NUMBER(max_entries, CALLS + OPERATIONS);
} looks SECTION(".maps");

#define MEMORY 64

/* A completed call or operation. */
struct event {
	u64 start; /* ns of CLOCK_MONOTONIC; 0 if it began before counting did */
	u64 end;
	u32 process; /* numbers in the namespace of user space */
	u32 thread;
	u32 call; /* as the key of `looks`; REPEATED is added to that */
	u32 size; /* valid bytes of `memory` */
	s64 result;
	u64 arguments[6]; /* of an operation as in `struct submitted` */
	u8 memory[MEMORY];
};

/* Flag of an event: one of several results of an operation. */
#define REPEATED 0x1000

struct {
	NUMBER(type, BPF_MAP_TYPE_RINGBUF);
	NUMBER(max_entries, 1 << 25); /* 200,000 calls: all of a busy program's in a tenth of a second */
} events SECTION(".maps");

/* Start time of the current call of each watched task. */
struct {
	NUMBER(type, BPF_MAP_TYPE_HASH);
	TYPE(key, u64); /* as in `tasks` */
	TYPE(value, u64);
	NUMBER(max_entries, 32768);
} starts SECTION(".maps");

/* Identifies the operation of a result: 0 and the address of its request; or, for multishot
 * results, which come without the request, the address of the ring and the user data. */
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
	/* If the map is full, the event has no start time. */
	if (map_lookup(&tasks, &task))
		map_update(&starts, &task, &start, BPF_ANY);
	return 0;
}

/* The address and length in the first iovec. */
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

/* Reads the program's data, as far as they fit. */
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
		event->size = size > 0 ? size - 1 : 0; /* without the terminating 0 */
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

/* The reader polls: waking it would cost more than the rest. */
static void emit(struct event *event)
{
	ring_submit(event, BPF_RB_NO_WAKEUP);
}

static void emit_call(const char *registers, u32 call, long result)
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
	emit(event);
}

/* A submission queue entry: struct io_uring_sqe of <linux/io_uring.h>. */
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

/* The location of these entries, by the kernel's field names. */
struct io_ring_ctx {
	u32 flags;
	u32 *sq_array;
	struct entry *sq_sqes;
	u32 cached_sq_head;
	u32 sq_entries;
} __attribute__((preserve_access_index));

#define RING_ENTRIES_ARE_LONG (1u << 10)
#define RING_WITHOUT_ARRAY (1u << 16)

/* The entry of the latest request. */
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

static void emit_submitted(const struct io_kiocb *request, u32 opcode)
{
	const struct io_ring_ctx *ring = 0;
	struct entry entry = {};
	u64 user_data = 0;
	read_kernel(&ring, sizeof(ring), &request->ctx);
	read_kernel(&user_data, sizeof(user_data), &request->cqe.user_data);
	read_entry(ring, &entry);
	struct submitted submitted = {.start = now(), .opcode = opcode, .arguments = {-1}};
	/* Otherwise the location of the entries is unknown, and so is this one. */
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
	/* A success will have no completion; a failure will have one without a start time. */
	if (found && entry.flags & ENTRY_SKIPS_SUCCESS) {
		struct event *event = new_event(CALLS + opcode, 0);
		if (event) {
			fill(event, &submitted);
			emit(event);
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

/* The request is complete, and its memory will be reused. */
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

static void emit_result(u64 ring, u64 request, u32 opcode, u64 user_data, s32 result)
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
		emit(event);
	}
	if (request)
		forget_operation(ring, request, user_data);
}
