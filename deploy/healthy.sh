#!/bin/sh
# Ends with 0 where the server of serve.sh answers, told its PORT and ADDRESS.
exec python - <<'PROGRAM'
import os
import sys
import urllib.request

host = os.environ.get("ADDRESS", "0.0.0.0").replace("0.0.0.0", "127.0.0.1")
try:
    urllib.request.urlopen(f"http://{host}:{os.environ.get('PORT', '8501')}/_stcore/health", timeout=5).close()
except OSError as error:
    sys.exit(f"not healthy: {error}")
PROGRAM
