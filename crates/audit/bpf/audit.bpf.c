/* The eBPF counter: system calls of the watched tasks by number, and their errors.
 *
 * It uses three raw tracepoints: `sched_process_fork` and `sched_process_exit` maintain the set of
 * watched tasks, `sys_exit` counts. The only kernel structure with a fixed layout is
 * `struct pt_regs` of x86-64, which ptrace(2) exposes too, so the kernel's BTF is not needed. The
 * address of its task_struct identifies a task: it is valid in every pid namespace, and known at
 * the fork, before the child runs.
 *
 * Two more programs count the submitted operations of io_uring, and their results. They read a
 * kernel structure, so they are loaded only if the kernel has BTF, which contains the offset of the
 * field.
 *
 * A second object also sends an event for each call (each.h): this file, compiled with EACH.
 *
 * Tracepoint programs run with preemption disabled, so per-CPU entries need no atomic operations.
 * Built by ./build. The objects are in the repository, so that building fulmar needs no clang.
 */
#include <linux/bpf.h>

typedef __u8 u8;
typedef __u16 u16;
typedef __s32 s32;
typedef __u32 u32;
typedef __u64 u64;
typedef __s64 s64;

#define SECTION(name) __attribute__((section(name), used))
#define HELPER(name) (*name)
#define NUMBER(name, n) int(*name)[n]
#define TYPE(name, t) t *name

static void *HELPER(map_lookup)(void *map, const void *key) = (void *)BPF_FUNC_map_lookup_elem;
static long HELPER(map_update)(void *map, const void *key, const void *value, u64 flags) =
	(void *)BPF_FUNC_map_update_elem;
static long HELPER(map_delete)(void *map, const void *key) = (void *)BPF_FUNC_map_delete_elem;
static u64 HELPER(current_task)(void) = (void *)BPF_FUNC_get_current_task;
static u64 HELPER(current_pid_tgid)(void) = (void *)BPF_FUNC_get_current_pid_tgid;
static long HELPER(ns_pid_tgid)(u64 dev, u64 ino, struct bpf_pidns_info *info, u32 size) =
	(void *)BPF_FUNC_get_ns_current_pid_tgid;
static long HELPER(read_kernel)(void *to, u32 size, const void *from) =
	(void *)BPF_FUNC_probe_read_kernel;
static long HELPER(read_user)(void *to, u32 size, const void *from) =
	(void *)BPF_FUNC_probe_read_user;

/* The pid namespace of the process that reads the counts: the numbers in `seeds` belong to it. 0, 0
 * for the first namespace, which has a number for every process. */
const volatile u64 namespace_dev = 0;
const volatile u64 namespace_ino = 0;

/* The state of a task. */
enum state {
	AWAITS_EXEC, /* its first counted call is the execve that succeeds */
	BORN,	     /* watched, but has not returned from a call yet */
	SEEN,	     /* watched, and its process is in `processes` */
};

/* How to treat a number from user space. */
enum seed {
	SEED_PROCESS = 0, /* key: its process number. Its threads are watched from now on. */
	SEED_PARENT = 1,  /* key: its thread number. Its children are watched from execve on. */
};

struct tally {
	u64 count;
	u64 bytes; /* the sum of positive results; user space knows where these are bytes */
};

/* Places in `totals`. */
enum total {
	LOST_TASKS,    /* `tasks` or `processes` is full: a task is not followed */
	LOST_FAILURES, /* `failures` is full: an error is not counted */
	LOST_KINDS,    /* `kinds` is full: a call has no kind */
	FOREIGN,       /* calls of 32-bit programs and x32, which have other numbers */
	THREADS,       /* tasks seen so far */
	PROCESSES,     /* processes seen so far */
	LOST_EVENTS,   /* `events` is full: a call is counted without an event */
	TOTALS,
};

struct {
	NUMBER(type, BPF_MAP_TYPE_HASH);
	TYPE(key, u64); /* enum seed in the upper half, a number in the lower */
	TYPE(value, u32);
	NUMBER(max_entries, 4096);
} seeds SECTION(".maps");

struct {
	NUMBER(type, BPF_MAP_TYPE_HASH);
	TYPE(key, u64);	  /* the address of the task_struct */
	TYPE(value, u32); /* enum state */
	NUMBER(max_entries, 32768);
} tasks SECTION(".maps");

struct {
	NUMBER(type, BPF_MAP_TYPE_HASH);
	TYPE(key, u32);	  /* its number in the first namespace */
	TYPE(value, u32); /* its live tasks that were seen */
	NUMBER(max_entries, 32768);
} processes SECTION(".maps");

#define CALLS 1024

struct {
	NUMBER(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	TYPE(key, u32); /* the number of the call */
	TYPE(value, struct tally);
	NUMBER(max_entries, CALLS);
} calls SECTION(".maps");

#define OPERATIONS 256

struct {
	NUMBER(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	TYPE(key, u32); /* the opcode, which is one byte */
	TYPE(value, struct tally);
	NUMBER(max_entries, OPERATIONS);
} operations SECTION(".maps");

struct {
	NUMBER(type, BPF_MAP_TYPE_PERCPU_HASH);
	TYPE(key, u32); /* call << 16 | errno; for operations of a ring, (CALLS + opcode) << 16 */
	TYPE(value, u64);
	NUMBER(max_entries, 4096);
} failures SECTION(".maps");

/* An argument is counted too if it shows whether the call was necessary. */
enum shape {
	NO_QUESTION,
	VALUE,	   /* kind: the argument */
	PAIR,	   /* kind: two arguments, the first in the upper half */
	MILLIS,	   /* kind: enum wait of an int */
	TIMESPEC,  /* kind: enum wait of a pointer to a timespec */
};

enum wait {
	WAIT_NOT,
	WAIT_A_TIME,
	WAIT_FOREVER,
};

struct {
	NUMBER(type, BPF_MAP_TYPE_ARRAY);
	TYPE(key, u32);	  /* the number of the call */
	TYPE(value, u32); /* enum shape | the argument << 8 | the second argument << 16 */
	NUMBER(max_entries, CALLS);
} questions SECTION(".maps");

struct {
	NUMBER(type, BPF_MAP_TYPE_PERCPU_HASH);
	TYPE(key, u64); /* call << 32 | kind */
	TYPE(value, u64);
	NUMBER(max_entries, 4096);
} kinds SECTION(".maps");

struct {
	NUMBER(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	TYPE(key, u32);
	TYPE(value, u64);
	NUMBER(max_entries, TOTALS);
} totals SECTION(".maps");

static void count_total(u32 which)
{
	u64 *total = map_lookup(&totals, &which);
	if (total)
		*total += 1;
}

static void count_key(void *map, const void *key, u32 lost)
{
	u64 one = 1;
	u64 *count = map_lookup(map, key);
	if (count)
		*count += 1;
	else if (map_update(map, key, &one, BPF_ANY))
		count_total(lost);
}

/* The numbers of the current process and thread in the namespace of user space; 0 if none. */
static struct bpf_pidns_info known_as(void)
{
	u64 both = current_pid_tgid();
	struct bpf_pidns_info info = {.tgid = both >> 32, .pid = both};
	if (namespace_ino && ns_pid_tgid(namespace_dev, namespace_ino, &info, sizeof(info)))
		info.tgid = info.pid = 0;
	return info;
}

static u64 seed_of_process(u32 process)
{
	return (u64)SEED_PROCESS << 32 | process;
}

/* True if the current process is a seed. */
static int is_seed(void)
{
	u64 key = seed_of_process(known_as().tgid);
	return map_lookup(&seeds, &key) != 0;
}

/* True if children of the current thread are to be watched. */
static int is_parent(void)
{
	u64 key = (u64)SEED_PARENT << 32 | known_as().pid;
	return map_lookup(&seeds, &key) != 0;
}

static void remember(u64 task, u32 state)
{
	if (map_update(&tasks, &task, &state, BPF_ANY))
		count_total(LOST_TASKS);
}

/* Counts the current task when it is seen for the first time. */
static void see(u64 task)
{
	u32 process = current_pid_tgid() >> 32, one = 1;
	u32 *live = map_lookup(&processes, &process);
	if (live) {
		__sync_fetch_and_add(live, 1);
	} else {
		if (map_update(&processes, &process, &one, BPF_ANY))
			count_total(LOST_TASKS);
		count_total(PROCESSES);
	}
	count_total(THREADS);
	remember(task, SEEN);
}

/* The current task ends after it was seen. */
static void leave_process(void)
{
	u32 process = current_pid_tgid() >> 32;
	u32 *live = map_lookup(&processes, &process);
	if (live)
		__sync_fetch_and_add(live, -1);
	if (live && *live == 0)
		map_delete(&processes, &process);
}

/* Offsets in struct pt_regs of x86-64, in bytes. */
#define ORIG_AX 120
#define CODE_SEGMENT 136
#define USER_CODE_32 0x23

/* Arguments in struct pt_regs: %rdi, %rsi, %rdx, %r10, %r8, %r9. A call does not change them. */
static u64 argument(const char *registers, u32 which)
{
	u64 offsets = 112ull | 104ull << 8 | 96ull << 16 | 56ull << 24 | 72ull << 32 | 64ull << 40;
	u64 value = 0;
	read_kernel(&value, sizeof(value), registers + (offsets >> (which & 7) * 8 & 0xff));
	return value;
}

/* An operation of a ring. The kernel's BTF has the offsets of the fields that are read. */
struct io_kiocb {
	u8 opcode;
#ifdef EACH
	struct io_ring_ctx *ctx;
	struct io_cqe {
		u64 user_data;
	} __attribute__((preserve_access_index)) cqe;
#endif
} __attribute__((preserve_access_index));

/* An unused opcode. The results of a multishot operation except the last have no request. */
#define OPCODE_UNKNOWN 255

#ifdef EACH
#include "each.h"
#else
/* No events. */
#define forget_start(task) ((void)0)
#define emit_call(registers, call, result) ((void)0)
#define emit_submitted(request, opcode) ((void)0)
#define emit_result(ring, request, opcode, user_data, result) ((void)0)
#define forget_operation(ring, request, user_data) ((void)0)
#endif

/* raw_tp: struct task_struct *parent, struct task_struct *child */
SECTION("raw_tp/sched_process_fork")
int on_fork(struct bpf_raw_tracepoint_args *context)
{
	u64 parent = current_task(), child = context->args[1];
	u32 *state = map_lookup(&tasks, &parent);
	if (state ? *state != AWAITS_EXEC : is_seed())
		remember(child, BORN);
	else if (is_parent())
		remember(child, AWAITS_EXEC);
	return 0;
}

/* raw_tp: struct task_struct *task, which is the current one */
SECTION("raw_tp/sched_process_exit")
int on_end(void *context)
{
	(void)context;
	u64 task = current_task();
	u32 *state = map_lookup(&tasks, &task);
	if (state && *state == SEEN)
		leave_process();
	if (state)
		map_delete(&tasks, &task);
	forget_start(task);
	/* Its number may be reused soon. */
	struct bpf_pidns_info names = known_as();
	u64 key = seed_of_process(names.tgid);
	if (names.pid == names.tgid)
		map_delete(&seeds, &key);
	return 0;
}

/* The number of an execve(2) of a 32-bit program when it returns, whatever the caller is. */
#define NR_EXECVE_32 11

#define NR_RT_SIGRETURN 15
#define NR_CLONE 56
#define NR_FORK 57
#define NR_VFORK 58
#define NR_EXECVE 59
#define NR_EXECVEAT 322
#define NR_CLONE3 435

#define ENOSYS 38
#define ERRNO_MAX 4095

static int is_exec(u32 call)
{
	return call == NR_EXECVE || call == NR_EXECVEAT;
}

static int makes_tasks(u32 call)
{
	return call == NR_CLONE || call == NR_FORK || call == NR_VFORK || call == NR_CLONE3;
}

static u32 wait_millis(int timeout)
{
	return timeout == 0 ? WAIT_NOT : timeout < 0 ? WAIT_FOREVER : WAIT_A_TIME;
}

static u32 wait_timespec(u64 address)
{
	u64 time[2] = {1, 0};
	if (!address)
		return WAIT_FOREVER;
	read_user(time, sizeof(time), (const void *)address);
	return time[0] | time[1] ? WAIT_A_TIME : WAIT_NOT;
}

static void count_kind(const char *registers, u32 call)
{
	u32 *question = map_lookup(&questions, &call);
	if (!question || *question == NO_QUESTION)
		return;
	u32 shape = *question & 0xff;
	u64 value = argument(registers, *question >> 8 & 0xff);
	u32 kind = value;
	if (shape == PAIR)
		kind = value << 16 | (argument(registers, *question >> 16 & 0xff) & 0xffff);
	else if (shape == MILLIS)
		kind = wait_millis(value);
	else if (shape == TIMESPEC)
		kind = wait_timespec(value);
	u64 key = (u64)call << 32 | kind;
	count_key(&kinds, &key, LOST_KINDS);
}

static void count_call(const char *registers, u32 call, long result)
{
	/* Returning from a signal restores the registers, including the one with the number
	 * of the call. So there is no number and no result. */
	if (call == (u32)-1 && result != -ENOSYS) {
		call = NR_RT_SIGRETURN;
		result = 0;
	}
	struct tally *tally = map_lookup(&calls, &call);
	if (!tally) {
		count_total(FOREIGN);
		return;
	}
	tally->count += 1;
	if (result > 0)
		tally->bytes += result;
	u32 failure = call << 16 | -result;
	if (result < 0 && result >= -ERRNO_MAX)
		count_key(&failures, &failure, LOST_FAILURES);
	count_kind(registers, call);
	emit_call(registers, call, result);
}

/* raw_tp: struct pt_regs *registers, long result */
SECTION("raw_tp/sys_exit")
int on_return(struct bpf_raw_tracepoint_args *context)
{
	u64 task = current_task();
	u32 *known = map_lookup(&tasks, &task);
	if (!known && !is_seed())
		return 0;
	u32 state = known ? *known : BORN;

	const char *registers = (const char *)context->args[0];
	long result = context->args[1];
	u64 call = 0, segment = 0;
	read_kernel(&call, sizeof(call), registers + ORIG_AX);
	read_kernel(&segment, sizeof(segment), registers + CODE_SEGMENT);
	int native = (u32)segment != USER_CODE_32;
	if (!native && call == NR_EXECVE_32 && result == 0) {
		call = NR_EXECVE;
		native = 1;
	}

	if (state == AWAITS_EXEC && !(is_exec(call) && result == 0))
		return 0;
	if (state != SEEN)
		see(task);
	/* The child returns from the call that created it, too. It counts once, for the parent. */
	if (state == BORN && makes_tasks(call) && result == 0)
		return 0;
	if (native)
		count_call(registers, call, result);
	else
		count_total(FOREIGN);
	return 0;
}

/* io_uring. */

/* As in <linux/io_uring.h>, for programs and the kernel alike. */
struct io_uring_cqe {
	u64 user_data;
	s32 res;
	u32 flags;
};

#define CQE_NOTIFIES (1u << 3) /* a buffer notification, not a result */

/* True in a task of a watched process, including the kernel threads of its ring, which have no
 * fork event. */
static int in_watched_process(void)
{
	u32 process = current_pid_tgid() >> 32;
	return map_lookup(&processes, &process) != 0;
}

/* tp_btf: struct io_kiocb *request */
SECTION("tp_btf/io_uring_submit_req")
int on_submit(u64 *context)
{
	if (!in_watched_process())
		return 0;
	struct io_kiocb *request = (struct io_kiocb *)context[0];
	u32 opcode = request->opcode;
	struct tally *tally = map_lookup(&operations, &opcode);
	if (tally)
		tally->count += 1;
	emit_submitted(request, opcode);
	return 0;
}

static void count_result(u64 ring, const struct io_kiocb *request, u64 user_data, s32 result,
			 u32 flags)
{
	(void)ring, (void)user_data; /* used only with events */
	if (!in_watched_process()) {
		/* A kernel thread ends the operations of a closed ring. */
		forget_operation(ring, (u64)request, user_data);
		return;
	}
	if (flags & CQE_NOTIFIES)
		return;
	u8 opcode = OPCODE_UNKNOWN;
	if (request)
		read_kernel(&opcode, sizeof(opcode), &request->opcode);
	u32 key = opcode, failure = (CALLS + key) << 16 | -result;
	struct tally *tally = map_lookup(&operations, &key);
	if (tally && !request)
		tally->count += 1;
	if (tally && result > 0)
		tally->bytes += result;
	if (result < 0 && result >= -ERRNO_MAX)
		count_key(&failures, &failure, LOST_FAILURES);
	emit_result(ring, (u64)request, opcode, user_data, result);
}

/* The verifier accepts the one of the next two programs that matches the kernel. */

/* tp_btf: void *ring, void *request, struct io_uring_cqe *completion */
SECTION("tp_btf/io_uring_complete")
int on_complete(u64 *context)
{
	struct io_uring_cqe *completion = (struct io_uring_cqe *)context[2];
	count_result(context[0], (struct io_kiocb *)context[1], completion->user_data,
		     completion->res, completion->flags);
	return 0;
}

/* tp_btf, Linux 5.19 and some after it: void *ring, void *request, u64 user_data, int result,
 * unsigned flags, u64, u64 */
SECTION("tp_btf/io_uring_complete")
int on_complete_by_value(u64 *context)
{
	count_result(context[0], (struct io_kiocb *)context[1], context[2], context[3], context[4]);
	return 0;
}

char terms[] SECTION("license") = "Dual MIT/GPL";
