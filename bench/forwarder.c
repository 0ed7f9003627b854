/* A bare forwarder: passes bytes on between 127.0.0.1:PORT and 127.0.0.1:TARGET_PORT, unread.
 *
 *     forwarder PORT TARGET_PORT
 *
 * One thread on level-triggered epoll. Each direction has one buffer. While a buffer holds bytes that its sink did not
 * take, its source is not read: that is the back-pressure, and it bounds the memory of a pair. The end of one direction
 * (FIN) is passed on and leaves the other direction open; an error ends both.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BUFFER = 64 * 1024, EVENTS = 256 };

struct direction {
    size_t start, end; /* of the bytes that the sink has yet to take */
    bool has_ended;    /* the source has sent FIN */
    bool is_done;      /* … and so have we, to the sink */
    char bytes[BUFFER];
};

struct side {
    int fd;
    uint32_t watched; /* 0: not registered, since epoll reports EPOLLHUP whether or not we want it */
    struct pair *pair;
    struct direction *in, *out; /* `in` is what this side sends us */
};

struct pair {
    struct side client, target;
    struct direction up, down;
    bool is_connecting, is_closed;
    struct pair *next_closed;
};

static int poller, listener;
static struct sockaddr_in target_address;
static struct pair *closed; /* freed after the current batch of events, which can still point to them */

static void die(const char *what) {
    perror(what);
    exit(1);
}

static void close_pair(struct pair *pair) {
    if (pair->is_closed)
        return;
    pair->is_closed = true;
    close(pair->client.fd);
    close(pair->target.fd);
    pair->next_closed = closed;
    closed = pair;
}

static void free_closed(void) {
    while (closed) {
        struct pair *next = closed->next_closed;
        free(closed);
        closed = next;
    }
}

static void watch(struct side *side, uint32_t events) {
    if (side->watched == events)
        return;
    struct epoll_event event = {.events = events, .data.ptr = side};
    int operation = !side->watched ? EPOLL_CTL_ADD : events ? EPOLL_CTL_MOD : EPOLL_CTL_DEL;
    if (epoll_ctl(poller, operation, side->fd, &event))
        die("epoll_ctl");
    side->watched = events;
}

static void watch_as_needed(struct side *side) {
    bool can_read = !side->in->has_ended && side->in->start == side->in->end;
    bool must_write = side->out->start != side->out->end;
    watch(side, (can_read ? EPOLLIN : 0) | (must_write ? EPOLLOUT : 0));
}

static bool is_passing(int error) {
    return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

/* Reads once into the empty buffer. Returns false on an error of the connection. */
static bool fill(struct direction *way, int source) {
    ssize_t count = recv(source, way->bytes, BUFFER, 0);
    if (count < 0)
        return is_passing(errno);
    way->start = 0;
    way->end = (size_t)count;
    way->has_ended = count == 0;
    return true;
}

/* Writes once what the buffer holds, and FIN after the last byte. Returns false on an error of the connection. */
static bool drain(struct direction *way, int sink) {
    if (way->start != way->end) {
        ssize_t count = send(sink, way->bytes + way->start, way->end - way->start, MSG_NOSIGNAL);
        if (count < 0)
            return is_passing(errno);
        way->start += (size_t)count;
    }
    if (way->has_ended && way->start == way->end && !way->is_done) {
        way->is_done = true;
        return shutdown(sink, SHUT_WR) == 0;
    }
    return true;
}

static void finish_connect(struct pair *pair) {
    int error = 0;
    socklen_t size = sizeof error;
    if (getsockopt(pair->target.fd, SOL_SOCKET, SO_ERROR, &error, &size) || error) {
        close_pair(pair);
        return;
    }
    pair->is_connecting = false;
    watch_as_needed(&pair->client);
    watch_as_needed(&pair->target);
}

static void handle(struct side *side, uint32_t events) {
    struct pair *pair = side->pair;
    if (pair->is_closed)
        return;
    if (pair->is_connecting) {
        finish_connect(pair);
        return;
    }
    struct side *peer = side == &pair->client ? &pair->target : &pair->client;
    bool is_open = true;
    if (events & EPOLLOUT)
        is_open = drain(side->out, side->fd);
    if (is_open && events & (EPOLLIN | EPOLLHUP | EPOLLERR) && side->watched & EPOLLIN)
        is_open = fill(side->in, side->fd) && drain(side->in, peer->fd);
    else if (events & EPOLLERR)
        is_open = false;
    if (!is_open || (pair->up.is_done && pair->down.is_done)) {
        close_pair(pair);
        return;
    }
    watch_as_needed(side);
    watch_as_needed(peer);
}

static void send_at_once(int fd) {
    int on = 1;
    if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on))
        die("TCP_NODELAY");
}

static void accept_client(void) {
    int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
        if (is_passing(errno) || errno == ECONNABORTED)
            return;
        die("accept");
    }
    /* Not calloc: the buffers need no zeros, and their pages no memory before they are used. */
    struct pair *pair = malloc(sizeof *pair);
    if (!pair)
        die("malloc");
    int target = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (target < 0)
        die("socket");
    pair->up.start = pair->up.end = pair->down.start = pair->down.end = 0;
    pair->up.has_ended = pair->up.is_done = pair->down.has_ended = pair->down.is_done = false;
    pair->client = (struct side){fd, 0, pair, &pair->up, &pair->down};
    pair->target = (struct side){target, 0, pair, &pair->down, &pair->up};
    pair->is_connecting = true;
    pair->is_closed = false;
    send_at_once(fd);
    send_at_once(target);
    if (connect(target, (struct sockaddr *)&target_address, sizeof target_address) && errno != EINPROGRESS)
        close_pair(pair);
    else
        watch(&pair->target, EPOLLOUT);
}

static void serve(void) {
    struct epoll_event events[EVENTS];
    for (;;) {
        int count = epoll_wait(poller, events, EVENTS, -1);
        if (count < 0 && errno != EINTR)
            die("epoll_wait");
        for (int place = 0; place < count; place++) {
            if (events[place].data.ptr)
                handle(events[place].data.ptr, events[place].events);
            else
                accept_client();
        }
        free_closed();
    }
}

static struct sockaddr_in on_loopback(const char *port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

static void allow_many_connections(void) {
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files))
        die("getrlimit");
    files.rlim_cur = files.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &files))
        die("setrlimit");
}

int main(int count, char **arguments) {
    if (count != 3) {
        fprintf(stderr, "usage: forwarder PORT TARGET_PORT\n");
        return 2;
    }
    allow_many_connections();
    target_address = on_loopback(arguments[2]);
    struct sockaddr_in address = on_loopback(arguments[1]);
    int on = 1;
    listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (listener < 0 || setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on))
        die("socket");
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 1024))
        die("listen");
    poller = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    if (poller < 0 || epoll_ctl(poller, EPOLL_CTL_ADD, listener, &event))
        die("epoll");
    serve();
}
