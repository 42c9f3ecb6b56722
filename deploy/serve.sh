#!/bin/sh
# Serves the app to other computers: paths on the server are not offered, settings come from the environment.
# PORT (8501), ADDRESS (0.0.0.0); whatever Streamlit reads (STREAMLIT_SERVER_MAX_UPLOAD_SIZE, ...) holds as well.
set -eu
cd "$(dirname "$0")/.."
exec python -m streamlit run app.py \
  --server.address="${ADDRESS:-0.0.0.0}" --server.port="${PORT:-8501}" --server.headless=true
