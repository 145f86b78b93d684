"""An independent check of where pods were placed: the rules a second time, on the API's plain JSON.

Open `checker` first. Never imports the product.
"""
