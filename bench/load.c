/* Raw RocketMQ load from one epoll loop, so that the broker under test is the bottleneck and not the client.
 *
 *   load send    pipelined sends (or batches) over several connections, until the broker has caught up
 *   load pull    every queue from its beginning, one pull in flight for each queue and connection
 *   load latency sends at a fixed rate; a long poll on a second connection receives
 *
 * Options, all with a value:  --port N  --topic NAME  --queues N  --connections N  --depth N  --total N  --body BYTES
 *                             --batch N  --idle N  --max N  --rate N  --account NAME  --secret KEY  --selector SQL92
 *
 * Rules
 *   - The code of every reply is checked. Refused messages are counted as errors and never as throughput.
 *   - A send rate includes the drain: the clock stops when the queues hold everything that was acknowledged and the
 *     broker says that nothing waits for dispatch or for the key index (dispatchBehindBytes and, where dispatch does
 *     not include the index, indexBehind).
 *   - After the drain the last message is looked up by its unique key: "indexed" says 1 found, 0 not found, -1 refused.
 *   - Everything is bounded: no answer within SILENCE_S, or a drain longer than DRAIN_S, ends the program.
 *   - One JSON line on standard output; exit status 0 also with refused messages, 2 for a wrong call, 3 for a failure.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum { SILENCE_S = 30, DRAIN_S = 120, EVENTS_MAX = 256, HEADER_MAX = 2048, READ_SIZE = 1 << 18, LATENCIES_MAX = 4 << 20 };
enum { PULL_MESSAGE = 11, QUERY_MESSAGE = 12, UPDATE_AND_CREATE_TOPIC = 17, GET_BROKER_RUNTIME_INFO = 28, GET_MAX_OFFSET = 30,
       SEND_MESSAGE_V2 = 310, SEND_BATCH_MESSAGE = 320 };
enum { SUCCESS = 0, PULL_NOT_FOUND = 19, PULL_RETRY_IMMEDIATELY = 20, QUERY_NOT_FOUND = 22 };

static struct {
  int port, queues, connections, depth, body, batch, idle, max;
  long total;
  double rate;
  const char *topic, *account, *secret, *selector;
} options = {.queues = 8, .connections = 1, .depth = 1, .body = 128, .max = 32, .total = 100000, .rate = 500, .topic = "load"};

static void die(int status, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  fputc('\n', stderr);
  exit(status);
}

static double now_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec * 1e-9;
}

static uint32_t get_u32(const unsigned char *p) { return (uint32_t)p[0] << 24 | p[1] << 16 | p[2] << 8 | p[3]; }
static void put_u16(unsigned char *p, unsigned v) { p[0] = v >> 8; p[1] = v; }
static void put_u32(unsigned char *p, uint32_t v) { put_u16(p, v >> 16); put_u16(p + 2, v & 0xFFFF); }

/* ---- what is counted ------------------------------------------------------------------------------------------ */

static float *latencies;
static long latency_count, error_count;
static int indexed = -1;
static char first_error[300];

static void note_latency(double seconds) {
  if (latency_count < LATENCIES_MAX) latencies[latency_count++] = seconds;
}

static void note_error(const char *text, int size) {
  if (error_count++) return;
  snprintf(first_error, sizeof first_error, "%.*s", size < 280 ? size : 280, text);
  for (char *p = first_error; *p; p++) {
    if (*p == '"') *p = '\'';
    if (*p == '\\' || (unsigned char)*p < ' ') *p = ' ';
  }
}

static int compare_floats(const void *a, const void *b) {
  float x = *(const float *)a, y = *(const float *)b;
  return (x > y) - (x < y);
}

static double latency_us(double quantile) {
  if (!latency_count) return 0;
  long at = latency_count * quantile;
  return latencies[at < latency_count ? at : latency_count - 1] * 1e6;
}

static void report(double load_s, double drain_s, long messages) {
  qsort(latencies, latency_count, sizeof *latencies, compare_floats);
  printf("{\"messages\":%ld,\"load_s\":%.6f,\"drain_s\":%.6f,\"per_s\":%.1f,\"p50_us\":%.1f,\"p99_us\":%.1f,"
         "\"p999_us\":%.1f,\"max_us\":%.1f,\"indexed\":%d,\"errors\":%ld,\"first_error\":\"%s\"}\n",
         messages, load_s, drain_s, messages / (load_s + drain_s), latency_us(.5), latency_us(.99), latency_us(.999),
         latency_us(1), indexed, error_count, first_error);
}

/* ---- signatures: Base64 of HMAC-SHA1 -------------------------------------------------------------------------- */

enum { BLOCK = 64, DIGEST = 20, SIGNATURE_SIZE = 28 };
typedef struct { uint32_t h[5]; uint64_t size; unsigned char block[BLOCK]; } Sha1;
static Sha1 inner_key, outer_key;

static uint32_t rotated(uint32_t v, int by) { return v << by | v >> (32 - by); }

static void sha1_block(Sha1 *s, const unsigned char *p) {
  uint32_t w[80], a = s->h[0], b = s->h[1], c = s->h[2], d = s->h[3], e = s->h[4];
  for (int i = 0; i < 80; i++) w[i] = i < 16 ? get_u32(p + 4 * i) : rotated(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
  for (int i = 0; i < 80; i++) {
    uint32_t f = i < 20 ? ((b & c) | (~b & d)) + 0x5A827999 : i < 40 ? (b ^ c ^ d) + 0x6ED9EBA1
               : i < 60 ? ((b & c) | (b & d) | (c & d)) + 0x8F1BBCDC : (b ^ c ^ d) + 0xCA62C1D6;
    uint32_t next = rotated(a, 5) + f + e + w[i];
    e = d, d = c, c = rotated(b, 30), b = a, a = next;
  }
  s->h[0] += a, s->h[1] += b, s->h[2] += c, s->h[3] += d, s->h[4] += e;
}

static void sha1_add(Sha1 *s, const unsigned char *p, size_t size) {
  for (size_t n; size; p += n, size -= n, s->size += n) {
    size_t used = s->size % BLOCK;
    n = BLOCK - used < size ? BLOCK - used : size;
    memcpy(s->block + used, p, n);
    if (used + n == BLOCK) sha1_block(s, s->block);
  }
}

static void sha1_end(Sha1 *s, unsigned char digest[DIGEST]) {
  static const unsigned char PAD[BLOCK] = {0x80};
  unsigned char bits[8];
  put_u32(bits, s->size >> 29), put_u32(bits + 4, s->size << 3);
  sha1_add(s, PAD, 1 + (BLOCK * 2 - 9 - s->size % BLOCK) % BLOCK);
  sha1_add(s, bits, 8);
  for (int i = 0; i < 5; i++) put_u32(digest + 4 * i, s->h[i]);
}

static Sha1 padded_key(unsigned char pad) {
  Sha1 s = {.h = {0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476, 0xC3D2E1F0}};
  unsigned char key[BLOCK] = {0};
  memcpy(key, options.secret, strnlen(options.secret, BLOCK));
  for (int i = 0; i < BLOCK; i++) key[i] ^= pad;
  sha1_add(&s, key, BLOCK);
  return s;
}

static void sign(char signature[SIGNATURE_SIZE + 1], const unsigned char *values, int size, const unsigned char *body, int body_size) {
  static const char BASE64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  unsigned char digest[DIGEST + 1] = {0};
  Sha1 inner = inner_key, outer = outer_key;
  sha1_add(&inner, values, size), sha1_add(&inner, body, body_size), sha1_end(&inner, digest);
  sha1_add(&outer, digest, DIGEST), sha1_end(&outer, digest);
  for (int i = 0; i < DIGEST; i += 3) {
    uint32_t v = digest[i] << 16 | digest[i + 1] << 8 | (i + 2 < DIGEST ? digest[i + 2] : 0);
    for (int j = 0; j < 4; j++) *signature++ = BASE64[v >> (18 - 6 * j) & 63];
  }
  signature[-1] = '=', *signature = 0;
}

/* ---- frames ---------------------------------------------------------------------------------------------------
 *
 *   +--------------+---------------------------+--------+------+
 *   | u32 length   | u32 type << 24 | header n | header | body |      length counts everything after itself
 *   +--------------+---------------------------+--------+------+      type 0 = JSON header
 */

typedef struct { const char *header; int header_size; const unsigned char *body; int body_size; long code; uint32_t opaque; } Reply;

enum { SIGNATURE_ROOM = 256 }; /* what signing adds to a header at most */
static const char EXT_FIELDS[] = "\"extFields\":{";

/* Sign what a header's ext fields and the body say. The fields must stand in the order of their names, and `account`
 * before all of them (it does: capital letters come first). Returns the size of the signed header written to `p`. */
static int write_signed(unsigned char *p, const char *header, int header_size, const unsigned char *body, int body_size) {
  const char *fields = (const char *)memmem(header, header_size, EXT_FIELDS, strlen(EXT_FIELDS)) + strlen(EXT_FIELDS), *at = fields;
  unsigned char values[HEADER_MAX];
  int size = snprintf((char *)values, sizeof values, "%s", options.account);
  while (*at == '"') {
    for (at = strchr(at + 1, '"') + 3; *at != '"';) /* over the name, quote, colon and quote */
      if (*at == '\\') values[size++] = strtol((char[]){at[4], at[5], 0}, NULL, 16), at += 6; /* as in \\u0001 */
      else values[size++] = *at++;
    if (*++at == ',') at++;
  }
  char signature[SIGNATURE_SIZE + 1];
  sign(signature, values, size, body, body_size);
  memcpy(p, header, fields - header);
  int added = sprintf((char *)p + (fields - header), "\"AccessKey\":\"%s\",\"Signature\":\"%s\"%s", options.account, signature, *fields == '}' ? "" : ",");
  memcpy(p + (fields - header) + added, fields, header + header_size - fields);
  return header_size + added;
}

static int write_frame(unsigned char *p, const char *header, int header_size, const unsigned char *body, int body_size) {
  if (options.account) {
    header_size = write_signed(p + 8, header, header_size, body, body_size);
    header = (const char *)p + 8;
  } else
    memcpy(p + 8, header, header_size);
  put_u32(p, 4 + header_size + body_size);
  put_u32(p + 4, header_size);
  if (body_size) memcpy(p + 8 + header_size, body, body_size);
  return 8 + header_size + body_size;
}

/* The number behind a JSON name; numbers may be quoted. Reply headers and KV tables are flat enough for this. */
static long number_after(const char *text, int size, const char *name, long absent) {
  const char *p = memmem(text, size, name, strlen(name));
  if (!p) return absent;
  for (p += strlen(name); *p == '"' || *p == ':' || *p == ' ';) p++;
  return strtol(p, NULL, 10);
}

static Reply parse_reply(const unsigned char *frame, uint32_t length) {
  int header_size = get_u32(frame + 4) & 0xFFFFFF;
  Reply r = {.header = (const char *)frame + 8, .header_size = header_size, .body = frame + 8 + header_size, .body_size = length - 4 - header_size};
  r.code = number_after(r.header, header_size, "\"code\"", -1);
  r.opaque = number_after(r.header, header_size, "\"opaque\"", 0);
  return r;
}

/* ---- a blocking connection for questions outside the load ------------------------------------------------------- */

static int dial(void) {
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(options.port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  struct timeval silence = {.tv_sec = SILENCE_S};
  if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address)) die(3, "connect to port %d: %s", options.port, strerror(errno));
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &silence, sizeof silence);
  return fd;
}

static void read_exactly(int fd, unsigned char *p, size_t size) {
  while (size) {
    ssize_t n = read(fd, p, size);
    if (n <= 0) die(3, "no answer to a question: %s", n ? strerror(errno) : "the broker closed the connection");
    p += n, size -= n;
  }
}

static Reply ask(int fd, int code, const char *ext_fields) {
  static unsigned char out[HEADER_MAX + 8 + SIGNATURE_ROOM], in[1 << 20];
  char header[HEADER_MAX];
  int size = snprintf(header, sizeof header, "{\"code\":%d,\"extFields\":{%s},\"flag\":0,\"language\":\"JAVA\",\"opaque\":1,"
                      "\"serializeTypeCurrentRPC\":\"JSON\",\"version\":407}", code, ext_fields);
  int frame_size = write_frame(out, header, size, NULL, 0);
  if (write(fd, out, frame_size) != frame_size) die(3, "question %d: %s", code, strerror(errno));
  read_exactly(fd, in, 4);
  uint32_t length = get_u32(in);
  if (length > sizeof in - 8) die(3, "answer to question %d of %u bytes", code, length);
  read_exactly(fd, in + 4, length);
  in[4 + length] = 0;
  return parse_reply(in, length);
}

static void create_topic(int fd) {
  char ext[HEADER_MAX / 2];
  snprintf(ext, sizeof ext, "\"defaultTopic\":\"TBW102\",\"order\":\"false\",\"perm\":\"6\",\"readQueueNums\":\"%d\",\"topic\":\"%s\","
           "\"topicFilterType\":\"SINGLE_TAG\",\"topicSysFlag\":\"0\",\"writeQueueNums\":\"%d\"", options.queues, options.topic, options.queues);
  Reply r = ask(fd, UPDATE_AND_CREATE_TOPIC, ext);
  if (r.code != SUCCESS) die(3, "creating topic %s: %.*s", options.topic, r.header_size, r.header);
}

static long queue_max_offset(int fd, int queue) {
  char ext[HEADER_MAX / 2];
  snprintf(ext, sizeof ext, "\"queueId\":\"%d\",\"topic\":\"%s\"", queue, options.topic);
  Reply r = ask(fd, GET_MAX_OFFSET, ext);
  if (r.code != SUCCESS) die(3, "max offset of %s/%d: %.*s", options.topic, queue, r.header_size, r.header);
  return number_after(r.header, r.header_size, "\"offset\"", -1);
}

static long stored_messages(int fd) {
  long sum = 0;
  for (int queue = 0; queue < options.queues; queue++) sum += queue_max_offset(fd, queue);
  return sum;
}

static bool has_caught_up(int fd) {
  Reply r = ask(fd, GET_BROKER_RUNTIME_INFO, "");
  if (r.code != SUCCESS) die(3, "runtime info: %.*s", r.header_size, r.header);
  const char *table = (const char *)r.body;
  long behind = number_after(table, r.body_size, "\"dispatchBehindBytes\"", -1);
  if (behind < 0) die(3, "runtime info has no dispatchBehindBytes");
  return !behind && !number_after(table, r.body_size, "\"indexBehind\"", 0);
}

/* Returns when the queues hold `expected` messages and nothing waits for dispatch or the index. */
static void wait_drained(int fd, long expected) {
  double deadline = now_s() + DRAIN_S;
  for (; stored_messages(fd) < expected; usleep(1000))
    if (now_s() > deadline) die(3, "queues hold %ld of %ld messages after %d s", stored_messages(fd), expected, DRAIN_S);
  for (; !has_caught_up(fd); usleep(1000))
    if (now_s() > deadline) die(3, "dispatch or index still behind after %d s", DRAIN_S);
}

/* ---- connections of the load ---------------------------------------------------------------------------------- */

typedef struct { unsigned char *bytes; size_t start, end, capacity; } Buffer;
typedef struct { int fd; Buffer in, out; int in_flight, next_queue; bool wants_write; long *next_offset; } Connection;
typedef struct { double sent_at; int queue; } Request;
typedef void OnReply(Connection *, const Reply *, const Request *);

enum { REQUESTS_WINDOW = 1 << 20 }; /* more than can be in flight; the slot of an opaque is its low bits */
static const uint32_t OPAQUE_FIRST = 1000000000; /* ten digits: templates are patched in place */
static Request *requests;
static uint32_t opaque_next = 1000000000;
static long issued, replies;
static int epoll_fd;

static unsigned char *room(Buffer *b, size_t size) {
  if (b->start == b->end) b->start = b->end = 0;
  if (b->end + size > b->capacity) {
    memmove(b->bytes, b->bytes + b->start, b->end - b->start);
    b->end -= b->start, b->start = 0;
    while (b->end + size > b->capacity) b->capacity = b->capacity ? b->capacity * 2 : READ_SIZE;
    if (!(b->bytes = realloc(b->bytes, b->capacity))) die(3, "out of memory");
  }
  return b->bytes + b->end;
}

static void open_connection(Connection *c, int id) {
  *c = (Connection){.fd = dial(), .next_queue = id % options.queues, .next_offset = calloc(options.queues, sizeof(long))};
  fcntl(c->fd, F_SETFL, O_NONBLOCK);
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
  epoll_ctl(epoll_fd, EPOLL_CTL_ADD, c->fd, &event);
}

static void flush(Connection *c) {
  while (c->out.start < c->out.end) {
    ssize_t n = write(c->fd, c->out.bytes + c->out.start, c->out.end - c->out.start);
    if (n < 0 && errno == EAGAIN) break;
    if (n < 0) die(3, "write: %s", strerror(errno));
    c->out.start += n;
  }
  bool wants_write = c->out.start < c->out.end;
  if (wants_write == c->wants_write) return;
  struct epoll_event event = {.events = EPOLLIN | (wants_write ? EPOLLOUT : 0), .data.ptr = c};
  epoll_ctl(epoll_fd, EPOLL_CTL_MOD, c->fd, &event);
  c->wants_write = wants_write;
}

static void read_replies(Connection *c, OnReply *on_reply) {
  ssize_t n = read(c->fd, room(&c->in, READ_SIZE), READ_SIZE);
  if (n < 0 && errno == EAGAIN) return;
  if (n < 0) die(3, "read: %s", strerror(errno));
  if (n == 0) die(3, "the broker closed a connection after %ld replies", replies);
  c->in.end += n;
  while (c->in.end - c->in.start >= 4) {
    unsigned char *frame = c->in.bytes + c->in.start;
    uint32_t length = get_u32(frame);
    if (c->in.end - c->in.start < 4 + (size_t)length) break;
    Reply reply = parse_reply(frame, length);
    c->in.start += 4 + length, c->in_flight--, replies++;
    on_reply(c, &reply, &requests[reply.opaque % REQUESTS_WINDOW]);
  }
}

static Request *new_request(Connection *c, int queue, uint32_t *opaque) {
  *opaque = opaque_next++;
  Request *request = &requests[*opaque % REQUESTS_WINDOW];
  *request = (Request){.sent_at = now_s(), .queue = queue};
  c->in_flight++;
  return request;
}

/* ---- send: header templates with the opaque and the unique key patched in place -------------------------------- */

/* A unique key as the Java client makes them: 20 constant digits (address, process, class loader), 8 of elapsed time,
 * 4 of a counter. */
enum { KEY_SIZE = 32, KEY_CONSTANT = 20 };
static const char KEY_START[] = "7F0000010000A1B2C3D4";
typedef struct { char *text; int size; char *opaque, *key; } Template;
static Template *templates;
static unsigned char *body;
static int body_size;
static unsigned char **batch_keys;
static char last_key[KEY_SIZE + 1];

static void patch_opaque(char *at, uint32_t v) {
  for (int i = 9; i >= 0; i--, v /= 10) at[i] = '0' + v % 10;
}

static void patch_key(unsigned char *at) {
  static const char HEX[] = "0123456789ABCDEF";
  static double started;
  static uint32_t counter;
  if (!started) started = now_s();
  uint64_t v = (uint64_t)((now_s() - started) * 1e3) << 16 | (counter++ & 0xFFFF);
  for (int i = KEY_SIZE - 1; i >= KEY_CONSTANT; i--, v >>= 4) at[i] = HEX[v & 15];
  memcpy(last_key, at, KEY_SIZE);
}

static Template make_template(int queue) {
  char header[HEADER_MAX], properties[200];
  snprintf(properties, sizeof properties, "UNIQ_KEY\\u0001%s%012d\\u0002WAIT\\u0001true", KEY_START, 0);
  int size = snprintf(header, sizeof header,
                      "{\"code\":%d,\"extFields\":{\"a\":\"load_group\",\"b\":\"%s\",\"c\":\"TBW102\",\"d\":\"8\",\"e\":\"%d\",\"f\":\"0\","
                      "\"g\":\"%lld\",\"h\":\"0\",\"i\":\"%s\",\"j\":\"0\",\"k\":\"false\",\"m\":\"%s\"},\"flag\":0,\"language\":\"JAVA\","
                      "\"opaque\":%u,\"serializeTypeCurrentRPC\":\"JSON\",\"version\":407}",
                      options.batch ? SEND_BATCH_MESSAGE : SEND_MESSAGE_V2, options.topic, queue, (long long)time(NULL) * 1000,
                      options.batch ? "WAIT\\u0001true" : properties, options.batch ? "true" : "false", OPAQUE_FIRST);
  Template t = {.text = strdup(header), .size = size};
  t.opaque = strstr(t.text, "\"opaque\":") + strlen("\"opaque\":");
  t.key = options.batch ? NULL : strstr(t.text, KEY_START);
  return t;
}

/* One message inside a batch: u32 size, u32 magic, u32 crc, u32 flag, u32 body size, body, u16 properties size, properties. */
static void make_batch_body(void) {
  char properties[200];
  int properties_size = snprintf(properties, sizeof properties, "UNIQ_KEY\1%s%012d\2WAIT\1true", KEY_START, 0);
  int item_size = 22 + options.body + properties_size;
  body = calloc(options.batch, item_size), body_size = options.batch * item_size;
  batch_keys = malloc(options.batch * sizeof *batch_keys);
  for (int i = 0; i < options.batch; i++) {
    unsigned char *p = body + i * item_size;
    put_u32(p, item_size), put_u32(p + 16, options.body);
    memset(p + 20, 'x', options.body);
    put_u16(p + 20 + options.body, properties_size);
    memcpy(p + 22 + options.body, properties, properties_size);
    batch_keys[i] = p + 22 + options.body + strlen("UNIQ_KEY\1");
  }
}

static void make_messages(void) {
  templates = malloc(options.queues * sizeof *templates);
  for (int queue = 0; queue < options.queues; queue++) templates[queue] = make_template(queue);
  if (options.batch) make_batch_body();
  else memset(body = malloc(options.body), 'x', body_size = options.body);
}

static int write_send(unsigned char *p, Template *t) {
  if (t->key) patch_key((unsigned char *)t->key);
  for (int i = 0; i < options.batch; i++) patch_key(batch_keys[i]);
  return write_frame(p, t->text, t->size, body, body_size);
}

/* Signed sends are made before the clock starts: the generator shares the machine with the broker, and what signing
 * costs a client is not what it costs the broker. Only the opaque, which is not signed, is patched later. */
static Buffer prepared;
static size_t *prepared_ends;

static void prepare_signed(void) {
  prepared_ends = malloc(options.total * sizeof *prepared_ends);
  for (long i = 0; i < options.total; i++) {
    Template *t = &templates[i % options.queues];
    prepared.end += write_send(room(&prepared, 8 + t->size + SIGNATURE_ROOM + body_size), t);
    prepared_ends[i] = prepared.end;
  }
}

static Request *send_one(Connection *c) {
  uint32_t opaque;
  int queue = prepared_ends ? issued % options.queues : c->next_queue;
  Template *t = &templates[queue];
  c->next_queue = (queue + 1) % options.queues;
  Request *request = new_request(c, queue, &opaque);
  if (prepared_ends) {
    size_t start = issued ? prepared_ends[issued - 1] : 0, size = prepared_ends[issued] - start;
    unsigned char *p = memcpy(room(&c->out, size), prepared.bytes + start, size);
    patch_opaque((char *)p + size - body_size - (t->text + t->size - t->opaque), opaque);
    c->out.end += size;
  } else {
    patch_opaque(t->opaque, opaque);
    c->out.end += write_send(room(&c->out, 8 + t->size + SIGNATURE_ROOM + body_size), t);
  }
  issued++;
  return request;
}

static void on_send_reply(Connection *c, const Reply *reply, const Request *request) {
  (void)c;
  if (reply->code != SUCCESS) note_error(reply->header, reply->header_size);
  note_latency(now_s() - request->sent_at);
}

static void refill(Connection *c) {
  while (c->in_flight < options.depth && issued < options.total) send_one(c);
  flush(c);
}

/* Opened, answered once and then silent: connections the broker must keep without paying for them. */
static void open_idle_connections(void) {
  for (int i = 0; i < options.idle; i++) queue_max_offset(dial(), 0);
}

/* Whether the broker finds the last message by its key; what it says about being behind is only its word. */
static int look_up_last_key(int fd) {
  char ext[HEADER_MAX / 2];
  snprintf(ext, sizeof ext, "\"beginTimestamp\":\"0\",\"endTimestamp\":\"9223372036854775807\",\"key\":\"%s\",\"maxNum\":\"8\","
           "\"topic\":\"%s\"", last_key, options.topic);
  Reply r = ask(fd, QUERY_MESSAGE, ext);
  return r.code == SUCCESS ? r.body_size > 0 : r.code == QUERY_NOT_FOUND ? 0 : -1;
}

static void run_send(int control) {
  Connection *connections = calloc(options.connections, sizeof *connections);
  struct epoll_event events[EVENTS_MAX];
  long per_request = options.batch ? options.batch : 1, before = stored_messages(control);
  make_messages();
  if (options.account) prepare_signed();
  open_idle_connections();
  for (int i = 0; i < options.connections; i++) open_connection(&connections[i], i);
  double started = now_s();
  for (int i = 0; i < options.connections; i++) refill(&connections[i]);
  while (replies < options.total) {
    int n = epoll_wait(epoll_fd, events, EVENTS_MAX, SILENCE_S * 1000);
    if (n <= 0) die(3, "no answer in %d s: %ld of %ld replies", SILENCE_S, replies, options.total);
    for (int i = 0; i < n; i++) {
      Connection *c = events[i].data.ptr;
      if (events[i].events & ~EPOLLOUT) read_replies(c, on_send_reply);
      refill(c);
    }
  }
  double loaded = now_s();
  long accepted = (replies - error_count) * per_request;
  wait_drained(control, before + accepted);
  double drained = now_s();
  indexed = look_up_last_key(control);
  report(loaded - started, drained - loaded, accepted);
}

/* ---- pull ------------------------------------------------------------------------------------------------------ */

static long received;
static int finished_queues;

static void pull(Connection *c, int queue, int suspend_ms) {
  enum { SUSPEND = 2, SUBSCRIPTION = 4 };
  char header[HEADER_MAX];
  uint32_t opaque;
  new_request(c, queue, &opaque);
  int size = snprintf(header, sizeof header,
                      "{\"code\":%d,\"extFields\":{\"commitOffset\":\"0\",\"consumerGroup\":\"load_pull\",\"expressionType\":\"%s\","
                      "\"maxMsgNums\":\"%d\",\"queueId\":\"%d\",\"queueOffset\":\"%ld\",\"subVersion\":\"1\",\"subscription\":\"%s\","
                      "\"suspendTimeoutMillis\":\"%d\",\"sysFlag\":\"%d\",\"topic\":\"%s\"},\"flag\":0,\"language\":\"JAVA\",\"opaque\":%u,"
                      "\"serializeTypeCurrentRPC\":\"JSON\",\"version\":407}",
                      PULL_MESSAGE, options.selector ? "SQL92" : "TAG", options.max, queue, c->next_offset[queue],
                      options.selector ? options.selector : "*", suspend_ms,
                      SUBSCRIPTION | (suspend_ms ? SUSPEND : 0), options.topic, opaque);
  c->out.end += write_frame(room(&c->out, 8 + size + SIGNATURE_ROOM), header, size, NULL, 0);
}

static long count_messages(const unsigned char *p, int size) {
  long count = 0;
  for (; size >= 4; count++) {
    uint32_t record = get_u32(p);
    if (record < 91 || record > (uint32_t)size) return -1;
    p += record, size -= record;
  }
  return size ? -1 : count;
}

static void on_pull_reply(Connection *c, const Reply *reply, const Request *request) {
  int queue = request->queue;
  long next = number_after(reply->header, reply->header_size, "\"nextBeginOffset\"", -1);
  bool goes_on = false;
  note_latency(now_s() - request->sent_at);
  if (reply->code == SUCCESS) {
    long count = count_messages(reply->body, reply->body_size);
    if (count <= 0) note_error("a pull's body is not whole records", 34);
    else received += count, goes_on = true;
  } else if (reply->code == PULL_NOT_FOUND || reply->code == PULL_RETRY_IMMEDIATELY) {
    goes_on = next > c->next_offset[queue] && next < number_after(reply->header, reply->header_size, "\"maxOffset\"", -1);
  } else {
    note_error(reply->header, reply->header_size);
  }
  if (!goes_on) { finished_queues++; return; }
  c->next_offset[queue] = next;
  pull(c, queue, 0);
}

static void run_pull(void) {
  Connection *connections = calloc(options.connections, sizeof *connections);
  struct epoll_event events[EVENTS_MAX];
  for (int i = 0; i < options.connections; i++) open_connection(&connections[i], i);
  double started = now_s();
  for (int i = 0; i < options.connections; i++) {
    for (int queue = 0; queue < options.queues; queue++) pull(&connections[i], queue, 0);
    flush(&connections[i]);
  }
  while (received < options.total && finished_queues < options.connections * options.queues) {
    int n = epoll_wait(epoll_fd, events, EVENTS_MAX, SILENCE_S * 1000);
    if (n <= 0) die(3, "no answer in %d s: %ld of %ld messages", SILENCE_S, received, options.total);
    for (int i = 0; i < n; i++) {
      Connection *c = events[i].data.ptr;
      if (events[i].events & ~EPOLLOUT) read_replies(c, on_pull_reply);
      flush(c);
    }
  }
  double seconds = now_s() - started;
  if (received < options.total) die(3, "read %ld of %ld messages: %s", received, options.total, first_error);
  report(seconds, 0, received);
}

/* ---- latency: the body carries the message's number, because a broker with several threads may reorder ---------- */

static double *sent_at;

static void on_latency_pull_reply(Connection *c, const Reply *reply, const Request *request) {
  enum { BODY_SIZE_AT = 84, BODY_AT = 88 }; /* of a record with IPv4 hosts */
  double now = now_s();
  if (reply->code == SUCCESS) {
    const unsigned char *p = reply->body, *end = reply->body + reply->body_size;
    if (count_messages(p, reply->body_size) <= 0) die(3, "a pull's body is not whole records");
    for (; p < end; p += get_u32(p), received++) {
      uint32_t number = get_u32(p + BODY_AT);
      if (get_u32(p + BODY_SIZE_AT) != (uint32_t)options.body || number >= options.total) die(3, "a message this run did not send");
      note_latency(now - sent_at[number]);
    }
  } else if (reply->code != PULL_NOT_FOUND && reply->code != PULL_RETRY_IMMEDIATELY) {
    die(3, "pull: %.*s", reply->header_size, reply->header);
  }
  c->next_offset[0] = number_after(reply->header, reply->header_size, "\"nextBeginOffset\"", c->next_offset[0]);
  pull(c, request->queue, 15000);
}

static void on_latency_send_reply(Connection *c, const Reply *reply, const Request *request) {
  (void)c, (void)request;
  if (reply->code != SUCCESS) die(3, "send: %.*s", reply->header_size, reply->header);
}

static int open_timer(void) {
  long period_ns = 1e9 / options.rate;
  struct timespec period = {.tv_sec = period_ns / 1000000000, .tv_nsec = period_ns % 1000000000};
  int fd = timerfd_create(CLOCK_MONOTONIC, 0);
  if (fd < 0 || timerfd_settime(fd, 0, &(struct itimerspec){.it_interval = period, .it_value = period}, NULL)) die(3, "timer: %s", strerror(errno));
  epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &(struct epoll_event){.events = EPOLLIN, .data.ptr = NULL});
  return fd;
}

static void send_due(int timer, Connection *sender) {
  uint64_t due;
  if (read(timer, &due, sizeof due) != sizeof due) return;
  for (; due && issued < options.total; due--) {
    put_u32(body, issued);
    long number = issued;
    sent_at[number] = send_one(sender)->sent_at;
  }
  flush(sender);
}

static void run_latency(int control) {
  Connection sender, receiver;
  struct epoll_event events[EVENTS_MAX];
  options.queues = 1;
  if (options.body < 4) die(2, "latency: the body needs 4 bytes for its number, not %d", options.body);
  make_messages();
  sent_at = calloc(options.total, sizeof *sent_at);
  open_connection(&sender, 0), open_connection(&receiver, 1);
  receiver.next_offset[0] = queue_max_offset(control, 0);
  pull(&receiver, 0, 15000);
  flush(&receiver);
  double started = now_s(), deadline = started + options.total / options.rate + SILENCE_S;
  int timer = open_timer();
  while (received < options.total) {
    int n = epoll_wait(epoll_fd, events, EVENTS_MAX, 1000);
    if (now_s() > deadline) die(3, "received %ld of %ld messages", received, options.total);
    for (int i = 0; i < n; i++) {
      Connection *c = events[i].data.ptr;
      if (!c) { send_due(timer, &sender); continue; }
      if (events[i].events & ~EPOLLOUT) read_replies(c, c == &sender ? on_latency_send_reply : on_latency_pull_reply);
      flush(c);
    }
  }
  report(now_s() - started, 0, received);
}

/* ---- the command line ------------------------------------------------------------------------------------------ */

static void parse_options(int argc, char **argv) {
  static const struct option NAMES[] = {
    {"port", 1, 0, 'p'}, {"topic", 1, 0, 't'}, {"queues", 1, 0, 'q'}, {"connections", 1, 0, 'c'}, {"depth", 1, 0, 'd'}, {"total", 1, 0, 'n'},
    {"body", 1, 0, 'b'}, {"batch", 1, 0, 'B'}, {"idle", 1, 0, 'i'}, {"max", 1, 0, 'm'}, {"rate", 1, 0, 'r'},
    {"account", 1, 0, 'a'}, {"secret", 1, 0, 's'}, {"selector", 1, 0, 'S'}, {0, 0, 0, 0}};
  for (int name; (name = getopt_long(argc, argv, "", NAMES, NULL)) != -1;) {
    switch (name) {
      case 'p': options.port = atoi(optarg); break;
      case 't': options.topic = optarg; break;
      case 'q': options.queues = atoi(optarg); break;
      case 'c': options.connections = atoi(optarg); break;
      case 'd': options.depth = atoi(optarg); break;
      case 'n': options.total = atol(optarg); break;
      case 'b': options.body = atoi(optarg); break;
      case 'B': options.batch = atoi(optarg); break;
      case 'i': options.idle = atoi(optarg); break;
      case 'm': options.max = atoi(optarg); break;
      case 'r': options.rate = atof(optarg); break;
      case 'a': options.account = optarg; break;
      case 's': options.secret = optarg; break;
      case 'S': options.selector = optarg; break;
      default: exit(2);
    }
  }
  if (options.port <= 0 || options.queues <= 0 || options.connections <= 0 || options.depth <= 0 || options.total <= 0 ||
      options.body <= 0 || options.batch < 0 || options.idle < 0 || options.max <= 0 || options.rate <= 0)
    die(2, "every option is a positive number, and --port is needed");
  if (!options.account != !options.secret || (options.account && strlen(options.account) > 100)) die(2, "--account and --secret go together, up to 100 characters");
  if (options.selector && (strlen(options.selector) > 1000 || strpbrk(options.selector, "\"\\"))) die(2, "--selector has up to 1,000 characters, no \" and no \\");
  if (options.account) inner_key = padded_key(0x36), outer_key = padded_key(0x5C);
  if ((long)options.connections * options.depth >= REQUESTS_WINDOW) die(2, "at most %d requests in flight", REQUESTS_WINDOW - 1);
}

static void raise_descriptor_limit(void) {
  struct rlimit limit;
  getrlimit(RLIMIT_NOFILE, &limit);
  if ((rlim_t)(options.idle + options.connections + 16) > limit.rlim_max) die(2, "%d connections need a higher limit of open files", options.idle);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

int main(int argc, char **argv) {
  const char *mode = argc > 1 ? argv[1] : "";
  if (argc > 1) parse_options(argc - 1, argv + 1);
  if (strcmp(mode, "send") && strcmp(mode, "pull") && strcmp(mode, "latency")) die(2, "usage: load send|pull|latency --port N ... (see the top of load.c)");
  raise_descriptor_limit();
  latencies = malloc(LATENCIES_MAX * sizeof *latencies);
  requests = calloc(REQUESTS_WINDOW, sizeof *requests);
  epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  int control = dial();
  if (strcmp(mode, "pull")) create_topic(control);
  if (!strcmp(mode, "send")) run_send(control);
  else if (!strcmp(mode, "pull")) run_pull();
  else run_latency(control);
  return 0;
}
