// A program on librabbitmq: librabbitmq_client PORT MESSAGES. Publishes to the queue `q` with confirms, consumes with a
// prefetch, and prints what came: how many in order, the properties of the last, and how an error is told.
#include <amqp.h>
#include <amqp_tcp_socket.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PREFETCH 50
#define BATCH 100

static void check(int ok, const char *what) {
    if (!ok) {
        fprintf(stderr, "%s failed\n", what);
        exit(1);
    }
}

static void check_reply(amqp_connection_state_t connection, const char *what) {
    check(amqp_get_rpc_reply(connection).reply_type == AMQP_RESPONSE_NORMAL, what);
}

static amqp_connection_state_t connect_to(int port) {
    amqp_connection_state_t connection = amqp_new_connection();
    amqp_socket_t *socket = amqp_tcp_socket_new(connection);
    check(socket && amqp_socket_open(socket, "127.0.0.1", port) == 0, "connect");
    amqp_rpc_reply_t reply = amqp_login(connection, "/", AMQP_DEFAULT_MAX_CHANNELS, AMQP_DEFAULT_FRAME_SIZE, 30,
                                        AMQP_SASL_METHOD_PLAIN, "guest", "guest");
    check(reply.reply_type == AMQP_RESPONSE_NORMAL, "login");
    amqp_channel_open(connection, 1);
    check_reply(connection, "channel.open");
    return connection;
}

// Until every message up to this delivery tag is confirmed.
static void wait_for_confirm(amqp_connection_state_t connection, uint64_t tag) {
    static uint64_t confirmed = 0;
    while (confirmed < tag) {
        amqp_frame_t frame;
        check(amqp_simple_wait_frame(connection, &frame) == AMQP_STATUS_OK, "wait for a confirm");
        check(frame.frame_type == AMQP_FRAME_METHOD && frame.payload.method.id == AMQP_BASIC_ACK_METHOD, "a confirm");
        amqp_basic_ack_t *ack = frame.payload.method.decoded;
        confirmed = ack->multiple ? ack->delivery_tag : confirmed + 1;
    }
}

static void publish(amqp_connection_state_t connection, int messages) {
    amqp_confirm_select(connection, 1);
    check_reply(connection, "confirm.select");
    amqp_table_entry_t header = {.key = amqp_cstring_bytes("number")};
    header.value.kind = AMQP_FIELD_KIND_I32;
    amqp_basic_properties_t properties = {0};
    properties._flags = AMQP_BASIC_DELIVERY_MODE_FLAG | AMQP_BASIC_CONTENT_TYPE_FLAG | AMQP_BASIC_HEADERS_FLAG;
    properties.delivery_mode = 2;
    properties.content_type = amqp_cstring_bytes("text/plain");
    properties.headers.num_entries = 1;
    properties.headers.entries = &header;
    for (int number = 0; number < messages; number++) {
        char body[16];
        snprintf(body, sizeof body, "%d", number);
        header.value.value.i32 = number;
        check(amqp_basic_publish(connection, 1, amqp_empty_bytes, amqp_cstring_bytes("q"), 0, 0, &properties,
                                 amqp_cstring_bytes(body)) == AMQP_STATUS_OK, "publish");
        if ((number + 1) % BATCH == 0 || number == messages - 1)
            wait_for_confirm(connection, (uint64_t)number + 1);
    }
}

static void consume(amqp_connection_state_t connection, int messages) {
    amqp_basic_qos(connection, 1, 0, PREFETCH, 0);
    check_reply(connection, "basic.qos");
    amqp_basic_consume(connection, 1, amqp_cstring_bytes("q"), amqp_empty_bytes, 0, 0, 0, amqp_empty_table);
    check_reply(connection, "basic.consume");
    int in_order = 0;
    for (int number = 0; number < messages; number++) {
        amqp_envelope_t envelope;
        struct timeval patience = {30, 0};
        amqp_maybe_release_buffers(connection);
        amqp_rpc_reply_t reply = amqp_consume_message(connection, &envelope, &patience, 0);
        check(reply.reply_type == AMQP_RESPONSE_NORMAL, "consume");
        char body[16];
        snprintf(body, sizeof body, "%d", number);
        amqp_table_t *headers = &envelope.message.properties.headers;
        in_order += envelope.message.body.len == strlen(body) && !memcmp(envelope.message.body.bytes, body, strlen(body))
                    && headers->num_entries == 1 && headers->entries[0].value.value.i32 == number;
        if (number == messages - 1) {
            amqp_bytes_t type = envelope.message.properties.content_type;
            printf("in order %d\ncontent type %.*s\n", in_order, (int)type.len, (char *)type.bytes);
        }
        check(amqp_basic_ack(connection, 1, envelope.delivery_tag, 0) == AMQP_STATUS_OK, "ack");
        amqp_destroy_envelope(&envelope);
    }
}

static void fail(amqp_connection_state_t connection) {
    amqp_channel_open(connection, 2);
    check_reply(connection, "channel.open");
    amqp_queue_declare(connection, 2, amqp_cstring_bytes("missing"), 1, 0, 0, 0, amqp_empty_table);
    amqp_rpc_reply_t reply = amqp_get_rpc_reply(connection);
    check(reply.reply_type == AMQP_RESPONSE_SERVER_EXCEPTION && reply.reply.id == AMQP_CHANNEL_CLOSE_METHOD, "an error");
    amqp_channel_close_t *closed = reply.reply.decoded;
    printf("error %d %.*s\n", closed->reply_code, (int)closed->reply_text.len, (char *)closed->reply_text.bytes);
    amqp_channel_close_ok_t answer;
    amqp_send_method(connection, 2, AMQP_CHANNEL_CLOSE_OK_METHOD, &answer);
}

// With transactions: published and acknowledged together, or not at all.
static void transact(amqp_connection_state_t connection) {
    amqp_channel_open(connection, 3);
    check_reply(connection, "channel.open");
    amqp_tx_select(connection, 3);
    check_reply(connection, "tx.select");
    for (int round = 0; round < 2; round++) {
        check(amqp_basic_publish(connection, 3, amqp_empty_bytes, amqp_cstring_bytes("t"), 0, 0, NULL,
                                 amqp_cstring_bytes(round ? "kept" : "dropped")) == AMQP_STATUS_OK, "publish");
        if (round)
            amqp_tx_commit(connection, 3);
        else
            amqp_tx_rollback(connection, 3);
        check_reply(connection, "end of a transaction");
    }
    amqp_queue_declare_ok_t *declared = amqp_queue_declare(connection, 3, amqp_cstring_bytes("t"), 1, 0, 0, 0,
                                                           amqp_empty_table);
    check_reply(connection, "queue.declare");
    printf("committed %u\n", declared->message_count);
}

int main(int count, char **arguments) {
    check(count == 3, "use: librabbitmq_client PORT MESSAGES");
    int messages = atoi(arguments[2]);
    amqp_connection_state_t connection = connect_to(atoi(arguments[1]));
    for (const char **name = (const char *[]){"q", "t", NULL}; *name; name++) {
        amqp_queue_declare(connection, 1, amqp_cstring_bytes(*name), 0, 1, 0, 0, amqp_empty_table);
        check_reply(connection, "queue.declare");
    }
    publish(connection, messages);
    consume(connection, messages);
    fail(connection);
    transact(connection);
    check(amqp_connection_close(connection, AMQP_REPLY_SUCCESS).reply_type == AMQP_RESPONSE_NORMAL, "close");
    amqp_destroy_connection(connection);
    return 0;
}
