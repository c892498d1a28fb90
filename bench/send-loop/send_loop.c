/* What io_uring can save a server that sends one message to many sockets: the same sends in two ways, nothing else.
 *
 * A child holds N TCP connections over loopback and reads them. The parent sends 128 bytes to each of them, one round
 * after the other, and waits for the child to have read a round before the next (one publication in flight). It does so
 * by turns with
 *   send      one send() a socket;
 *   uring     one IORING_OP_SEND a socket, submitted in batches, sockets registered, no completion for a success;
 *   sqpoll    the same, submitted by the kernel's polling thread (its CPU time is in the process's).
 * Printed: the parent's CPU microseconds a send, user and system, in all and by turns.
 *
 *   cc -O2 -o send_loop send_loop.c && ./send_loop 1000 2000 && ./send_loop 10000 200
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/io_uring.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MESSAGE = 128, ENTRIES = 1024 };

static char message[MESSAGE];

static void die(const char *what) {
    perror(what);
    exit(1);
}

static void no_delay(int fd) {
    int one = 1;
    if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one)) die("TCP_NODELAY");
}

/* The child: reads everything, and writes a byte to `done` when each connection had a round's bytes. */
static void read_all(int port, int count, int done) {
    int poll = epoll_create1(0);
    for (int i = 0; i < count; i++) {
        struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
        to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        if (fd < 0 || connect(fd, (void *)&to, sizeof to)) die("connect");
        struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
        if (epoll_ctl(poll, EPOLL_CTL_ADD, fd, &event)) die("epoll_ctl");
    }
    uint64_t round = (uint64_t)count * MESSAGE, got = 0;
    struct epoll_event events[1024];
    char buffer[4096];
    for (;;) {
        int n = epoll_wait(poll, events, 1024, -1);
        for (int i = 0; i < n; i++) {
            ssize_t bytes = read(events[i].data.fd, buffer, sizeof buffer);
            if (bytes <= 0) _exit(0);
            got += bytes;
        }
        if (got >= round) {
            got -= round;
            if (write(done, "x", 1) != 1) _exit(0);
        }
    }
}

struct ring {
    int fd;
    int polled;
    struct io_uring_sqe *entries;
    _Atomic unsigned *head, *tail, *flags, *cq_head, *cq_tail;
    unsigned mask, cq_mask, *array;
    struct io_uring_cqe *completions;
};

static void open_ring(struct ring *ring, int *files, int count, int polled) {
    struct io_uring_params params = {0};
    params.flags = polled ? IORING_SETUP_SQPOLL : IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN;
    params.sq_thread_idle = 100;
    ring->fd = syscall(SYS_io_uring_setup, ENTRIES, &params);
    if (ring->fd < 0) die("io_uring_setup");
    ring->polled = polled;
    size_t size = params.sq_off.array + params.sq_entries * sizeof(unsigned);
    size_t cq_size = params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe);
    if (cq_size > size) size = cq_size;
    char *map = mmap(0, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring->fd, IORING_OFF_SQ_RING);
    ring->entries = mmap(0, params.sq_entries * sizeof(struct io_uring_sqe), PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_POPULATE, ring->fd, IORING_OFF_SQES);
    if (map == MAP_FAILED || ring->entries == MAP_FAILED) die("mmap");
    ring->head = (void *)(map + params.sq_off.head);
    ring->tail = (void *)(map + params.sq_off.tail);
    ring->flags = (void *)(map + params.sq_off.flags);
    ring->mask = *(unsigned *)(map + params.sq_off.ring_mask);
    ring->array = (void *)(map + params.sq_off.array);
    ring->cq_head = (void *)(map + params.cq_off.head);
    ring->cq_tail = (void *)(map + params.cq_off.tail);
    ring->cq_mask = *(unsigned *)(map + params.cq_off.ring_mask);
    ring->completions = (void *)(map + params.cq_off.cqes);
    if (syscall(SYS_io_uring_register, ring->fd, IORING_REGISTER_FILES, files, count)) die("register files");
}

static void submit(struct ring *ring, unsigned count) {
    atomic_fetch_add_explicit(ring->tail, count, memory_order_release);
    if (ring->polled) {
        atomic_thread_fence(memory_order_seq_cst);
        if (atomic_load(ring->flags) & IORING_SQ_NEED_WAKEUP)
            syscall(SYS_io_uring_enter, ring->fd, 0, 0, IORING_ENTER_SQ_WAKEUP, 0, 0);
        while (atomic_load_explicit(ring->head, memory_order_acquire) != atomic_load(ring->tail)) usleep(20);
    } else {
        long sent = syscall(SYS_io_uring_enter, ring->fd, count, 0, IORING_ENTER_GETEVENTS, 0, 0);
        if (sent != (long)count) die("io_uring_enter");
    }
    unsigned head = atomic_load(ring->cq_head), tail = atomic_load_explicit(ring->cq_tail, memory_order_acquire);
    for (; head != tail; head++) {
        int result = ring->completions[head & ring->cq_mask].res;
        if (result != MESSAGE) fprintf(stderr, "a send gave %d\n", result), exit(1);
    }
    atomic_store_explicit(ring->cq_head, head, memory_order_release);
}

static void round_by_ring(struct ring *ring, int count) {
    for (int from = 0; from < count; from += ENTRIES) {
        unsigned batch = count - from < ENTRIES ? count - from : ENTRIES, tail = atomic_load(ring->tail);
        for (unsigned i = 0; i < batch; i++) {
            unsigned at = (tail + i) & ring->mask;
            ring->entries[at] = (struct io_uring_sqe){
                .opcode = IORING_OP_SEND, .fd = from + i, .addr = (uintptr_t)message, .len = MESSAGE,
                .msg_flags = MSG_DONTWAIT | MSG_NOSIGNAL, .flags = IOSQE_FIXED_FILE | IOSQE_CQE_SKIP_SUCCESS};
            ring->array[at] = at;
        }
        submit(ring, batch);
    }
}

static double cpu(int *fd_unused, double *user) {
    struct rusage usage;
    (void)fd_unused;
    getrusage(RUSAGE_SELF, &usage);
    *user = usage.ru_utime.tv_sec * 1e6 + usage.ru_utime.tv_usec;
    return usage.ru_stime.tv_sec * 1e6 + usage.ru_stime.tv_usec;
}

int main(int argc, char **argv) {
    int count = argc > 1 ? atoi(argv[1]) : 1000, rounds = argc > 2 ? atoi(argv[2]) : 1000, turns = 4;
    int listener = socket(AF_INET, SOCK_STREAM, 0), done[2];
    struct sockaddr_in at = {.sin_family = AF_INET};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    if (bind(listener, (void *)&at, size) || listen(listener, 4096) || pipe(done)) die("listen");
    getsockname(listener, (void *)&at, &size);
    pid_t child = fork();
    if (!child) read_all(ntohs(at.sin_port), count, done[1]);
    int *files = calloc(count, sizeof *files);
    for (int i = 0; i < count; i++) {
        if ((files[i] = accept(listener, 0, 0)) < 0) die("accept");
        no_delay(files[i]);
    }
    struct ring ring, polled;
    open_ring(&ring, files, count, 0);
    open_ring(&polled, files, count, 1);
    const char *names[] = {"send", "uring", "sqpoll"};
    for (int turn = 0; turn < turns; turn++) {
        for (int way = 0; way < 3; way++) {
            double user, user_before, system_before = cpu(0, &user_before), system;
            char byte;
            usleep(300000); /* the polling thread sleeps again */
            system_before = cpu(0, &user_before);
            for (int round = 0; round < rounds; round++) {
                if (way == 0) {
                    for (int i = 0; i < count; i++)
                        if (send(files[i], message, MESSAGE, MSG_DONTWAIT | MSG_NOSIGNAL) != MESSAGE) die("send");
                } else {
                    round_by_ring(way == 1 ? &ring : &polled, count);
                }
                if (read(done[0], &byte, 1) != 1) die("the child ended");
            }
            system = cpu(0, &user);
            double sends = (double)count * rounds;
            printf("%-7s %8.3f us a send (%.3f user, %.3f system)\n", names[way],
                   (user - user_before + system - system_before) / sends, (user - user_before) / sends,
                   (system - system_before) / sends);
            fflush(stdout);
        }
    }
    kill(child, SIGKILL);
    waitpid(child, 0, 0);
}
