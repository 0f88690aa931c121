"""The HTTP service: codes and nearest images, with FastAPI. `app.create_app` assembles it."""
