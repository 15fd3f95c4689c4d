from cpgt.cli import main

main()
