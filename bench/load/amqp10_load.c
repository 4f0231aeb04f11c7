/* amqp10_load - a light AMQP 1.0 load generator and exactly-once checker.  cc -O2 -o amqp10_load amqp10_load.c
 * One thread, one epoll, one connection with one session and one link per publisher and per consumer, frames encoded
 * once and stamped in place.  Queues are declared over /management, as RabbitMQ 4's clients do; see usage(). */
#include "lg.h"

static const char *host = "127.0.0.1", *port = "5672", *user = "guest", *pass = "guest", *vhost = "/", *qname = "load", *label = "";
static int np = 1, ns = 1, nq = 1, size = 1024, window_ = 1000, prefetch = 500, ackbatch = 100, autoack, persistent = 1, durable = 1, keep, nodelete, verbose, nowait_drain;
static u64 count, e2e, expect_, rate_; static double duration = 5, warmup = 1, idle = 10;
static u32 run_id; static int xpubs;
static const char *qargs[32]; static int nqargs;
static u32 frame_max = 131072;
enum { OPEN = 0x10, BEGIN, ATTACH, FLOW, TRANSFER, DISPOSITION, DETACH, END, CLOSE };
#define WINDOW 0x7fffffffu      /* transfers that a consumer's session takes before it must say more */

typedef struct { u8 *tmpl; size_t len; int stampoff, idoff, tagoff, k, wfill, woff; u64 seq, low, base, nconf, granted, framed; u8 *done; u64 *ts; u64 mask; int stopped; } pub;
typedef struct { u64 *next, unacked, got, topped; u32 first, last; int q; } sub;
static conn *cs; static pub *P; static sub *S; static seen *sn; static u64 reorders, alien, nacks, badsize, *qrecv;

static void usage(void) {
    puts("amqp10_load [--host H] [--port P] [--user U] [--pass P] [--vhost V] [--label L]\n"
         "  --pubs N --subs M --queues Q --size B    connections and payload (size >= 24, in one frame); publisher i uses queue i%Q\n"
         "  --queue NAME --queue-arg K=V ...         V: text, i:NUM or b:0|1 (e.g. x-queue-type=quorum)\n"
         "  --window W (0: settled, no confirms) --transient --not-durable\n"
         "  --prefetch N (credit, topped up at half) --ack-batch N | --auto-ack\n"
         "  --duration S --warmup S | --count N (messages per publisher) | --expect N --xpubs P (drain only: what to wait for)\n"
         "  --rate R (messages/s per publisher, open loop) --e2e-window N (most messages sent but not received)\n"
         "  --run-id N --keep (leave the queues) --no-delete (do not delete them first) --no-drain (stop with the publishers)\n"
         "  --idle S (give up after S seconds of no progress) --pid P[,P..] (broker) --verbose");
    exit(1); }

/* ---- encoding: fields one by one, lists and maps in their wide form ---- */
static u8 mb[70000];
static void null_(wr *w) { w8(w, 0x40); }
static void bool_(wr *w, int v) { w8(w, v ? 0x41 : 0x42); }
static void uint_(wr *w, u32 v) { w8(w, 0x70); w32(w, v); }
static void long_(wr *w, u64 v) { w8(w, 0x81); w64(w, v); }
static void text_(wr *w, int code, const char *s, u32 n) { w8(w, code); w32(w, n); wb(w, s, n); }     /* 0xb0 binary, 0xb1 string, 0xb3 symbol */
static void string_(wr *w, const char *s) { text_(w, 0xb1, s, strlen(s)); }
static void symbol_(wr *w, const char *s) { text_(w, 0xb3, s, strlen(s)); }
static u8 *compound(wr *w, int code, u32 n) { w8(w, code); u8 *at = w->p; w32(w, 0); w32(w, n); return at; }   /* 0xd0 list, 0xd1 map */
static void finish(wr *w, u8 *at) { wr s = {at}; w32(&s, w->p - at - 4); }
static u8 *described(wr *w, int code, u32 fields) { w8(w, 0); w8(w, 0x53); w8(w, code); return compound(w, 0xd0, fields); }
static u8 *lst;
static wr mstart(int code, u32 fields) { wr w = {mb + 8}; lst = described(&w, code, fields); return w; }
static u32 mdone(wr *w, int type) { finish(w, lst); u32 n = w->p - mb; wr h = {mb}; w32(&h, n); w8(&h, 2); w8(&h, type); w16(&h, 0); return n; }
static void msend(int fd, wr *w, int type) { u32 n = mdone(w, type); xwrite(fd, mb, n); }
static void terminus(wr *w, int code, const char *address) { u8 *l = described(w, code, 1); if (address) string_(w, address); else null_(w); finish(w, l); }

/* ---- decoding ---- */
static const u8 *skip(const u8 *p) {
    switch (p[0] >> 4) {
        case 0: return skip(skip(p + 1));
        case 4: return p + 1; case 5: return p + 2; case 6: return p + 3; case 7: return p + 5; case 8: return p + 9; case 9: return p + 17;
        case 0xA: case 0xC: case 0xE: return p + 2 + p[1];
        case 0xB: case 0xD: case 0xF: return p + 5 + g32(p + 1);
        default: die("type 0x%02x", p[0]); return 0;
    } }
static u64 num(const u8 *p, u64 none) {         /* an unsigned number or truth value; `none` for null */
    switch (p[0]) {
        case 0x40: return none; case 0x41: return 1; case 0x42: case 0x43: case 0x44: return 0;
        case 0x50: case 0x52: case 0x53: case 0x56: return p[1]; case 0x60: return g16(p + 1); case 0x70: return g32(p + 1); case 0x80: return g64(p + 1);
        default: die("a number of type 0x%02x", p[0]); return 0;
    } }
static const u8 *descriptor(const u8 *p, int *code) { if (*p) die("no descriptor"); *code = num(p + 1, 0); return skip(p + 1); }
static const u8 *null1 = (const u8 *)"\x40";
static const u8 *fields(const u8 *p, const u8 **f, int n) {     /* the elements of a list, null where it ends; returns what follows it */
    const u8 *e = skip(p); u32 have = 0;
    if (p[0] == 0xc0) { have = p[2]; p += 3; } else if (p[0] == 0xd0) { have = g32(p + 5); p += 9; } else if (p[0] != 0x45) die("no list");
    for (int i = 0; i < n; i++) { f[i] = (u32)i < have ? p : null1; if ((u32)i < have) p = skip(p); }
    return e; }
static u8 ib[1 << 18];
static void ended(int code, const u8 *list) {
    const u8 *f[3], *e[3]; fields(list, f, 3); const u8 *err = f[code == DETACH ? 2 : 0]; int c;
    if (*err) die("the broker sent performative 0x%02x", code);
    fields(descriptor(err, &c), e, 3);
    const u8 *d = e[1]; int wide = d[0] == 0xb1; die("the broker sent performative 0x%02x: %.*s", code, d[0] == 0x40 ? 0 : wide ? (int)g32(d + 1) : d[1], d + (wide ? 5 : 2)); }
static const u8 *await(int fd, int want) {      /* the list of the next frame, which must be of this performative */
    for (;;) {
        xread(fd, ib, 8); u32 n = g32(ib); if (n > sizeof ib || n < 8) die("frame of %u bytes", n);
        xread(fd, ib + 8, n - 8); if (n == 8) continue;
        int code; const u8 *l = descriptor(ib + 4 * ib[4], &code);
        if (code == want) return l;
        if (code == DETACH || code == END || code == CLOSE) ended(code, l);
        if (code != FLOW) die("wanted performative 0x%02x, got 0x%02x", want, code);
    } }
static void header(int fd, int id) { char h[9] = "AMQP\0\1\0\0", got[8]; h[4] = id; xwrite(fd, h, 8); xread(fd, got, 8); if (memcmp(h, got, 8)) die("the broker does not speak AMQP 1.0"); }
static u32 first_id[1 << 16];           /* by connection: the broker's first next-outgoing-id, which need not be 0 */
static int open_session(u32 *window) {          /* `window` of the broker's session */
    int fd = tcp_connect(host, port); header(fd, 3); await(fd, 0x40);
    wr w = mstart(0x41, 2); char sasl[512]; int n = snprintf(sasl, sizeof sasl, "%c%s%c%s", 0, user, 0, pass); symbol_(&w, "PLAIN"); text_(&w, 0xb0, sasl, n); msend(fd, &w, 1);
    const u8 *f[10]; fields(await(fd, 0x44), f, 1); if (num(f[0], 1)) die("the login was refused");
    header(fd, 0); char name[64], vh[300]; snprintf(name, sizeof name, "amqp10_load-%d-%d", getpid(), fd); snprintf(vh, sizeof vh, "vhost:%s", vhost);
    w = mstart(OPEN, 3); string_(&w, name); string_(&w, vh); uint_(&w, sizeof ib / 2); msend(fd, &w, 0);
    fields(await(fd, OPEN), f, 3); frame_max = MIN(frame_max, num(f[2], frame_max));
    w = mstart(BEGIN, 4); null_(&w); uint_(&w, 0); uint_(&w, WINDOW); uint_(&w, WINDOW); msend(fd, &w, 0);
    fields(await(fd, BEGIN), f, 4); *window = num(f[2], 0); first_id[fd & 0xffff] = num(f[1], 0);
    return fd; }
static void attach(int fd, const char *name, u32 handle, int receiver, int settled, const char *from, const char *to, int paired) {
    wr w = mstart(ATTACH, 14); string_(&w, name); uint_(&w, handle); bool_(&w, receiver); w8(&w, 0x50); w8(&w, settled); w8(&w, 0x50); w8(&w, 0);
    terminus(&w, 0x28, from); terminus(&w, 0x29, to); null_(&w); null_(&w); if (receiver) null_(&w); else uint_(&w, 0); null_(&w); null_(&w); null_(&w);
    if (paired) { u8 *m = compound(&w, 0xd1, 2); symbol_(&w, "paired"); bool_(&w, 1); finish(&w, m); } else null_(&w);
    msend(fd, &w, 0);
    const u8 *f[7]; fields(await(fd, ATTACH), f, 7); if (*f[receiver ? 5 : 6] == 0x40) await(fd, -1); }     /* refused: the detach says why */
static wr link_flow(int fd, u32 seen, u32 handle, u32 n, u32 credit) {
    wr w = mstart(FLOW, 7); uint_(&w, first_id[fd & 0xffff] + seen); uint_(&w, WINDOW); uint_(&w, 0); uint_(&w, WINDOW); uint_(&w, handle); uint_(&w, n); uint_(&w, credit); return w; }
static const char *qn(int i) { static char b[4][256]; static int k; char *s = b[k++ & 3]; if (i) snprintf(s, 256, "%s.%d", qname, i); else snprintf(s, 256, "%s", qname); return s; }
static const char *address(int i) {             /* of a queue, percent-encoded */
    static char b[800]; char *o = b + sprintf(b, "/queues/");
    for (const char *s = qn(i); *s; s++) if (strchr("-._~", *s) || (*s >= '0' && *s <= '9') || ((*s | 32) >= 'a' && (*s | 32) <= 'z')) *o++ = *s; else o += sprintf(o, "%%%02X", (u8)*s);
    *o = 0; return b; }
static void bye(int fd) {
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK); struct timeval tv = {5, 0}; setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof tv);
    wr w = mstart(CLOSE, 0); u32 n = mdone(&w, 0); ssize_t k; if (send(fd, mb, n, MSG_NOSIGNAL) > 0) while ((k = read(fd, ib, sizeof ib)) > 0) ;   /* until the broker hangs up */
    close(fd); }

/* ---- queues, over /management ---- */
static int manager(void) {
    u32 window; int fd = open_session(&window);
    attach(fd, "management", 0, 0, 1, "/management", "/management", 1); attach(fd, "management", 1, 1, 1, "/management", "/management", 1);
    wr w = link_flow(fd, 0, 1, 0, 100000); msend(fd, &w, 0); return fd; }
static void queue_op(int fd, const char *verb, int i) {
    static u32 id; wr w = mstart(TRANSFER, 5); uint_(&w, 0); uint_(&w, id); w8(&w, 0xa0); w8(&w, 4); w32(&w, id++); uint_(&w, 0); bool_(&w, 1); finish(&w, lst);
    u8 *p = described(&w, 0x73, 5); string_(&w, "1"); null_(&w); string_(&w, address(i)); string_(&w, verb); string_(&w, "$me"); finish(&w, p);
    w8(&w, 0); w8(&w, 0x53); w8(&w, 0x77);
    if (verb[0] == 'D') null_(&w);
    else {
        u8 *m = compound(&w, 0xd1, 4); string_(&w, "durable"); bool_(&w, durable); string_(&w, "arguments"); u8 *a = compound(&w, 0xd1, 2 * nqargs);
        for (int k = 0; k < nqargs; k++) {
            const char *e = strchr(qargs[k], '='); if (!e) die("argument %s lacks =", qargs[k]);
            text_(&w, 0xb1, qargs[k], e - qargs[k]); e++;
            if (!strncmp(e, "i:", 2)) long_(&w, strtoll(e + 2, 0, 10)); else if (!strncmp(e, "b:", 2)) bool_(&w, atoi(e + 2)); else string_(&w, e);
        }
        finish(&w, a); finish(&w, m);
    }
    u32 n = w.p - mb; wr h = {mb}; w32(&h, n); w8(&h, 2); w8(&h, 0); w16(&h, 0); xwrite(fd, mb, n);
    const u8 *s = skip(await(fd, TRANSFER)), *f[4]; int code; const u8 *v;
    for (;; s = skip(v)) { v = descriptor(s, &code); if (code == 0x73) break; }
    fields(v, f, 4); if (f[3][0] != 0xa1 || f[3][2] != '2') die("%s %s was refused", verb, address(i)); }
static void setup(void) { int fd = manager(); for (int i = 0; i < nq; i++) { if (!nodelete) queue_op(fd, "DELETE", i); queue_op(fd, "PUT", i); } bye(fd); }
static void teardown(void) { int fd = manager(); for (int i = 0; i < nq; i++) queue_op(fd, "DELETE", i); bye(fd); }

/* ---- publishers ---- */
static void on_flow(pub *p, const u8 *list) {   /* how many messages and frames may have been sent in all */
    const u8 *f[7]; fields(list, f, 7); p->framed = (u32)num(f[0], 0) + num(f[1], 0);
    if (*f[4] != 0x40) p->granted = num(f[5], 0) + num(f[6], 0); }
static void pub_init(conn *c, int i) {
    pub *p = c->x = &P[i]; u32 window; c->fd = open_session(&window); attach(c->fd, "publisher", 0, 0, window_ ? 0 : 1, 0, address(i % nq), 0);
    p->framed = window; while (!p->granted) on_flow(p, await(c->fd, FLOW));
    u8 *one = xz(200 + size); wr w = {one + 8}; u8 *l = described(&w, TRANSFER, 5);
    uint_(&w, 0); p->idoff = w.p + 1 - one; uint_(&w, 0); w8(&w, 0xa0); w8(&w, 4); p->tagoff = w.p - one; w32(&w, 0); uint_(&w, 0); bool_(&w, !window_); finish(&w, l);
    if (persistent) { l = described(&w, 0x70, 1); bool_(&w, 1); finish(&w, l); }
    w8(&w, 0); w8(&w, 0x53); w8(&w, 0x75); w8(&w, 0xb0); w32(&w, size); p->stampoff = w.p - one; for (int j = 0; j < size; j++) w8(&w, 'a' + j % 23);
    p->len = w.p - one; if (p->len > frame_max) die("a message of %d bytes does not fit a frame of %u", size, frame_max);
    wr h = {one}; w32(&h, p->len); w8(&h, 2); w8(&h, 0); w16(&h, 0);
    p->k = MAX(1, (int)(WCHUNK / p->len)); p->tmpl = xz(p->k * p->len); for (int j = 0; j < p->k; j++) memcpy(p->tmpl + j * p->len, one, p->len);
    free(one);
    u64 n = 1; while (n < (u64)MAX(window_, 1) * 2) n *= 2;
    p->mask = n - 1; p->done = xz(n); p->ts = xz(n * 8); p->low = 1; }
static int pub_room(pub *p, u64 now) {          /* how many messages this publisher may send now */
    if (p->stopped) return 0;
    u64 n = p->k, most = MIN(p->granted, p->framed); n = p->seq >= most ? 0 : MIN(n, most - p->seq);
    if (count) n = MIN(n, count - p->seq);
    if (window_) n = MIN(n, window_ - (p->seq - p->nconf));
    if (e2e) { u64 out = sent - received; n = out >= e2e ? 0 : MIN(n, e2e - out); }
    if (rate_) { u64 due = now < p->base ? 0 : (u64)((now - p->base) / 1e9 * rate_) + 1; n = due > p->seq ? MIN(n, due - p->seq) : 0; }
    return n; }
static int pub_pump(conn *c, u64 now) {         /* one write; 1 if it could go on at once */
    pub *p = c->x;
    if (p->wfill == p->woff) {
        int n = pub_room(p, now); if (!n) return 0;
        for (int j = 0; j < n; j++) {
            u64 t = rate_ ? p->base + (u64)(p->seq * (1e9 / rate_)) : now;      /* open loop: when it was due */
            u8 *m = p->tmpl + j * p->len; wr id = {m + p->idoff}, tag = {m + p->tagoff}; w32(&id, p->seq); w32(&tag, p->seq);
            stamp(m + p->stampoff, t, c->idx, run_id, p->seq++);
            if (window_) p->ts[p->seq & p->mask] = t;
        }
        p->woff = 0; p->wfill = n * p->len; sent += n; last_progress = now;
    }
    ssize_t k = send(c->fd, p->tmpl + p->woff, p->wfill - p->woff, MSG_NOSIGNAL);
    if (k < 0) { if (errno == EAGAIN) { conn_want(c, 1); return 0; } die("publisher %d: %s", c->idx, strerror(errno)); }
    p->woff += k; if (p->woff < p->wfill) { conn_want(c, 1); return 0; }
    conn_want(c, 0); return pub_room(p, now) > 0; }
static inline void conf_one(pub *p, u64 t, u64 now) {
    u8 *d = &p->done[t & p->mask]; if (*d) return;
    *d = 1; p->nconf++; confirmed++; if (measuring) h_add(&clat, now - MIN(now, p->ts[t & p->mask])); }
static void on_disposition(pub *p, const u8 *list, u64 now) {
    const u8 *f[5]; fields(list, f, 5); u64 first = num(f[1], 0), last = num(f[2], first); int state = 0x24;
    if (!num(f[3], 0)) return;
    if (*f[4] == 0) descriptor(f[4], &state);
    if (last >= p->seq || first > last) die("disposition of %lu to %lu, of %lu", first, last, p->seq);
    for (u64 t = first; t <= last; t++) { if (state != 0x24) nacks++; conf_one(p, t + 1, now); }
    while (p->low <= p->seq && p->done[p->low & p->mask]) { p->done[p->low & p->mask] = 0; p->low++; }
    last_progress = now; }

/* ---- consumers ---- */
static void sub_put(conn *c, wr *w) { u32 n = mdone(w, 0); memcpy(conn_room(c, n), mb, n); }
static void sub_init(conn *c, int i) {
    sub *s = c->x = &S[i]; u32 window; s->q = i % nq; s->next = xz(8 * xpubs); c->fd = open_session(&window);
    attach(c->fd, "consumer", 0, 1, autoack, address(s->q), 0, 0);
    wr w = link_flow(c->fd, 0, 0, 0, prefetch); msend(c->fd, &w, 0); }
static void sub_ack(conn *c) {
    sub *s = c->x; if (!s->unacked || autoack) return;
    wr w = mstart(DISPOSITION, 5); bool_(&w, 1); uint_(&w, s->first); uint_(&w, s->last); bool_(&w, 1); u8 *l = described(&w, 0x24, 0); finish(&w, l);
    sub_put(c, &w); s->unacked = 0; }
static void on_transfer(conn *c, const u8 *list, const u8 *end, u64 now) {
    sub *s = c->x; const u8 *f[6], *v, *p = fields(list, f, 6); int code; if (num(f[5], 0)) die("a message in several frames");
    for (;; p = skip(v)) { if (p >= end) die("a message without data"); v = descriptor(p, &code); if (code == 0x75) break; }
    u32 n = v[0] == 0xa0 ? v[1] : g32(v + 1); v += v[0] == 0xa0 ? 2 : 5; s->got++;
    s->last = num(f[1], 0); if (!s->unacked) s->first = s->last;
    if (!autoack) { s->unacked++; if (s->unacked >= (u64)ackbatch) sub_ack(c); }
    if (s->got - s->topped >= (u64)MAX(prefetch / 2, 1)) { s->topped = s->got; wr w = link_flow(c->fd, s->got, 0, s->got, prefetch); sub_put(c, &w); }
    if (n != (u32)size) badsize++;
    if (n < STAMP) { alien++; return; }
    u64 t, q; u32 pb, rn; memcpy(&t, v, 8); memcpy(&pb, v + 8, 4); memcpy(&rn, v + 12, 4); memcpy(&q, v + 16, 8);
    if (rn != run_id || pb >= (u32)xpubs) { alien++; return; }
    received++; qrecv[s->q]++; seen_add(&sn[s->q * xpubs + pb], q);
    if (q + 1 < s->next[pb]) reorders++; else s->next[pb] = q + 1;
    if (measuring) h_add(&lat, now - MIN(now, t)); }
static size_t parse(conn *c, u64 now) {          /* whole frames in c->rb; returns bytes used */
    size_t o = 0;
    while (c->rn - o >= 8) {
        u8 *f = c->rb + o; u32 n = g32(f); if (n > RCAP || n < 8) die("frame of %u bytes", n);
        if (c->rn - o < n) break;
        o += n; if (n <= 4u * f[4]) continue;    /* a heartbeat */
        int code; const u8 *l = descriptor(f + 4 * f[4], &code);
        if (code == TRANSFER) on_transfer(c, l, f + n, now);
        else if (code == DISPOSITION) { if (!c->sub) on_disposition(c->x, l, now); }
        else if (code == FLOW) { if (!c->sub) on_flow(c->x, l); }
        else ended(code, l);
    }
    return o; }
static void on_readable(conn *c) {
    ssize_t k = recv(c->fd, c->rb + c->rn, RCAP - c->rn, 0);
    if (k == 0 || (k < 0 && errno != EAGAIN && errno != EINTR)) die("%s %d: %s", c->sub ? "consumer" : "publisher", c->idx, k ? strerror(errno) : "closed by the broker");
    if (k <= 0) return;
    u64 now = now_ns(); c->rn += k; size_t o = parse(c, now);
    if (o) { memmove(c->rb, c->rb + o, c->rn - o); c->rn -= o; }
    if (c->sub) { last_progress = now; if (c->on && !c->want_out) conn_flush(c); } }

static u64 distinct(void) { u64 d = 0; for (int i = 0; i < nq * xpubs; i++) d += sn[i].distinct; return d; }
static u64 wanted(void) { return ns ? expect_ ? expect_ * xpubs : sent : 0; }
int main(int ac, char **av) {
    static struct option o[] = {{"host", 1, 0, 'h'}, {"port", 1, 0, 'p'}, {"user", 1, 0, 'u'}, {"pass", 1, 0, 'w'}, {"vhost", 1, 0, 'v'}, {"label", 1, 0, 'l'}, {"pubs", 1, 0, 1}, {"subs", 1, 0, 2}, {"queues", 1, 0, 3}, {"size", 1, 0, 4}, {"queue", 1, 0, 5}, {"queue-arg", 1, 0, 6}, {"window", 1, 0, 9}, {"transient", 0, 0, 10}, {"not-durable", 0, 0, 11}, {"prefetch", 1, 0, 12}, {"ack-batch", 1, 0, 13}, {"auto-ack", 0, 0, 14}, {"duration", 1, 0, 16}, {"warmup", 1, 0, 17}, {"count", 1, 0, 18}, {"expect", 1, 0, 19}, {"xpubs", 1, 0, 20}, {"rate", 1, 0, 21}, {"e2e-window", 1, 0, 22}, {"run-id", 1, 0, 23}, {"keep", 0, 0, 24}, {"no-delete", 0, 0, 25}, {"idle", 1, 0, 26}, {"pid", 1, 0, 27}, {"verbose", 0, 0, 28}, {"no-drain", 0, 0, 29}, {0}};
    for (int c; (c = getopt_long(ac, av, "", o, 0)) != -1;) switch (c) {
        case 'h': host = optarg; break; case 'p': port = optarg; break; case 'u': user = optarg; break; case 'w': pass = optarg; break; case 'v': vhost = optarg; break; case 'l': label = optarg; break;
        case 1: np = atoi(optarg); break; case 2: ns = atoi(optarg); break; case 3: nq = atoi(optarg); break; case 4: size = atoi(optarg); break; case 5: qname = optarg; break;
        case 6: if (nqargs < 32) qargs[nqargs++] = optarg; break; case 9: window_ = atoi(optarg); break;
        case 10: persistent = 0; break; case 11: durable = 0; break; case 12: prefetch = atoi(optarg); break; case 13: ackbatch = atoi(optarg); break; case 14: autoack = 1; break;
        case 16: duration = atof(optarg); break; case 17: warmup = atof(optarg); break; case 18: count = atoll(optarg); break;
        case 19: expect_ = atoll(optarg); break; case 20: xpubs = atoi(optarg); break; case 21: rate_ = atoll(optarg); break; case 22: e2e = atoll(optarg); break; case 23: run_id = atoi(optarg); break;
        case 24: keep = 1; break; case 25: nodelete = 1; break; case 26: idle = atof(optarg); break; case 27: parse_pids(optarg); break; case 28: verbose = 1; break; case 29: nowait_drain = 1; break;
        default: usage(); }
    if (size < STAMP || (!np && !ns) || nq < 1 || (ns && ns % nq && ns < nq)) usage();
    if (!run_id) run_id = (u32)(now_ns() / 1000) | 1;
    if (!xpubs) xpubs = MAX(np, 1);
    if (prefetch && ackbatch > prefetch) ackbatch = prefetch;
    if (count || !np) warmup = 0;
    signal(SIGPIPE, SIG_IGN); prctl(PR_SET_TIMERSLACK, 1000); ep = epoll_create1(0);
    cs = xz(sizeof *cs * (np + ns)); P = xz(sizeof *P * np); S = xz(sizeof *S * ns); sn = xz(sizeof *sn * nq * xpubs); qrecv = xz(8 * nq);
    setup(); rss_start = rss_pids();
    for (int i = 0; i < ns; i++) { cs[i].idx = i; cs[i].sub = 1; sub_init(&cs[i], i); }
    for (int i = 0; i < np; i++) { cs[ns + i].idx = i; pub_init(&cs[ns + i], i); }
    for (int i = 0; i < np + ns; i++) { cs[i].rb = xz(RCAP); conn_async(&cs[i]); }
    u64 now = now_ns(), tick = now; t_start = last_progress = now; t_stop = np && !count ? now + (u64)((warmup + duration) * 1e9) : 0;
    for (int i = 0; i < np; i++) P[i].base = now + i * (rate_ ? 1000000000ull / rate_ / np : 0);
    int publishing = np > 0, opened = 0, timed_out = 0;
    if (warmup <= 0) { window_open(now); opened = 1; }
    for (;;) {
        int busy = 0; now = now_ns();
        if (!opened && now >= t_start + (u64)(warmup * 1e9)) { window_open(now); opened = 1; }
        if (publishing) {
            if (t_stop && now >= t_stop) for (int i = 0; i < np; i++) P[i].stopped = 1;
            int live = 0;
            for (int i = 0; i < np; i++) { conn *c = &cs[ns + i]; if (!c->want_out) busy |= pub_pump(c, now); pub *p = c->x; live += p->wfill != p->woff || !(p->stopped || (count && p->seq >= count)); }
            if (!live) { publishing = 0; if (t_stop) window_close(now); }
        }
        if (!publishing) {
            int fin = (!window_ || confirmed >= sent) && (nowait_drain || distinct() >= wanted());
            if (fin || (timed_out = now - last_progress > idle * 1e9)) { if (measuring) window_close(fin ? now : last_progress); break; }
        }
        struct epoll_event ev[64]; struct timespec ts = {0, busy ? 0 : rate_ && publishing ? 1000000000 / (rate_ * np) / 2 : 2000000};
        int n = epoll_pwait2(ep, ev, 64, &ts, 0);
        for (int i = 0; i < n; i++) { conn *c = ev[i].data.ptr;
            if (ev[i].events & EPOLLOUT) { if (c->sub) conn_flush(c); else { conn_want(c, 0); if (!publishing) pub_pump(c, now); } }
            if (ev[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) on_readable(c); }
        if (!n || now - tick > 100000000) {
            for (int i = 0; i < ns; i++) if (!n && !cs[i].want_out) { sub_ack(&cs[i]); if (cs[i].on) conn_flush(&cs[i]); }
            if (now - tick > 100000000) { tick = now; rss_max = MAX(rss_max, rss_pids()); if (verbose) fprintf(stderr, "%.1fs sent %lu confirmed %lu received %lu\n", (now - t_start) / 1e9, sent, confirmed, received); }
        }
    }
    for (int i = 0; i < ns; i++) { sub_ack(&cs[i]); conn_flush(&cs[i]); }
    u64 dups = 0, gaps = 0; for (int i = 0; i < nq * xpubs; i++) dups += sn[i].dup;
    if (!nowait_drain && wanted() > distinct()) gaps = wanted() - distinct();
    char more[200]; snprintf(more, sizeof more, "\"nacks\":%lu,\"badsize\":%lu,\"unconfirmed\":%lu,\"total_s\":%.3f,", nacks, badsize, window_ ? sent - confirmed : 0, (last_progress - t_start) / 1e9);
    result("amqp10", label, np, ns, size, gaps, dups, reorders, alien, more);
    for (int i = 0; i < np + ns; i++) bye(cs[i].fd);
    if (!keep) teardown();
    return gaps || dups || reorders || timed_out || (window_ && confirmed < sent) ? 3 : 0; }
