"""forebay: one durable message broker for MQTT, AMQP and Spark."""

__version__ = "0.1.0"
