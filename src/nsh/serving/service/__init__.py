"""The HTTP service: codes and nearest images over FastAPI. `app.create_app` puts it together."""
